//! Parameters in groups.
//!
//! The parameters of neighbouring layers are one *group*: one run of memory, which a task declares
//! by one access and which is updated by one task. So a network of many small parameters costs no
//! more tasks than one of few. A group that is large is cut into *blocks*, each of which one task
//! updates.

use std::ops::Range;

use super::steps::PlanNode;

/// Values of a block. A group grows while it is not larger.
pub(crate) const BLOCK: usize = 1 << 16;

/// Which parameters are together.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// By node: its group, and where in it each of its parameters is.
    nodes: Vec<Option<(usize, Vec<Range<usize>>)>>,
}

/// The parameters of some neighbouring nodes, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) len: usize,
    pub(crate) nodes: Vec<usize>,
}

impl Groups {
    pub(crate) fn new(nodes: &[PlanNode]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut places = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let lens: Vec<usize> = node.layer.parameters().iter().map(|p| p.len()).collect();
            let len: usize = lens.iter().sum();
            if lens.is_empty() {
                places.push(None);
                continue;
            }
            if groups.last().is_none_or(|group| group.len + len > BLOCK) {
                groups.push(Group::default());
            }
            let place = groups.len() - 1;
            let group = &mut groups[place];
            let mut start = group.len;
            let ranges = lens.iter().map(|len| {
                start += len;
                start - len..start
            });
            places.push(Some((place, ranges.collect())));
            group.len += len;
            group.nodes.push(index);
        }
        Self { groups, nodes: places }
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// The nodes whose parameters are in `group`, in their order.
    pub(crate) fn nodes(&self, group: usize) -> &[usize] {
        &self.groups[group].nodes
    }

    /// The group of `node`, if it has parameters.
    pub(crate) fn of_node(&self, node: usize) -> Option<usize> {
        self.nodes[node].as_ref().map(|(group, _)| *group)
    }

    /// Where in its group each parameter of `node` is.
    pub(crate) fn ranges(&self, node: usize) -> &[Range<usize>] {
        self.nodes[node].as_ref().map_or(&[], |(_, ranges)| ranges)
    }
}
