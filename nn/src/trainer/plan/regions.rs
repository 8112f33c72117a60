//! Which buffers of a stage share memory.

use std::ops::Range;

use super::steps::{BufId, Program};

/// By buffer: the steps from the first to the last that use it.
pub(crate) fn lives(program: &Program) -> Vec<Range<usize>> {
    let mut lives = vec![0..0; program.lens.len()];
    for (index, step) in program.steps.iter().enumerate() {
        step.touches(|buf, _| {
            let life: &mut Range<usize> = &mut lives[buf];
            if life.end == 0 {
                life.start = index;
            }
            life.end = index + 1;
        });
    }
    lives
}

/// Regions for the scratch buffers of the steps in `range`, and by buffer its region.
pub(crate) fn regions(
    program: &Program,
    lives: &[Range<usize>],
    range: Range<usize>,
    is_scratch: impl Fn(BufId) -> bool,
) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut region_of = vec![None; lives.len()];
    let mut free: Vec<usize> = Vec::new();
    for index in range {
        let mut begun = Vec::new();
        program.steps[index].touches(|buf, _| {
            if lives[buf].start == index && is_scratch(buf) && !begun.contains(&buf) {
                begun.push(buf);
            }
        });
        for &buf in &begun {
            let region = region_for(&mut sizes, &mut free, program.lens[buf]);
            region_of[buf] = Some(region);
        }
        let mut ended = Vec::new();
        program.steps[index].touches(|buf, _| {
            if lives[buf].end == index + 1 && is_scratch(buf) && !ended.contains(&buf) {
                ended.push(buf);
            }
        });
        free.extend(ended.iter().filter_map(|&buf| region_of[buf]));
    }
    (sizes, region_of)
}

/// A region of at least `len`: of those that are free the smallest that is large enough, or else
/// the largest, which grows, or else a new one.
fn region_for(sizes: &mut Vec<usize>, free: &mut Vec<usize>, len: usize) -> usize {
    let fit = |&place: &usize| {
        let size = sizes[free[place]];
        (size < len, if size < len { usize::MAX - size } else { size }, free[place])
    };
    match (0..free.len()).min_by_key(fit) {
        Some(place) => {
            let region = free.swap_remove(place);
            sizes[region] = sizes[region].max(len);
            region
        }
        None => {
            sizes.push(len);
            sizes.len() - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_used_again_where_it_fits_best() {
        let (mut sizes, mut free) = (vec![5, 20, 10], vec![0, 1, 2]);
        assert_eq!(region_for(&mut sizes, &mut free, 8), 2);
        assert_eq!(region_for(&mut sizes, &mut free, 30), 1);
        assert_eq!(region_for(&mut sizes, &mut free, 1), 0);
        assert_eq!(region_for(&mut sizes, &mut free, 3), 3);
        assert_eq!((sizes, free), (vec![5, 30, 10, 3], vec![]));
    }
}
