//! Memory is bounded in bytes, for all producers together.

use millrace_loader::producers::{
    Budget, Claim, DType, Field, Layout, Producers, ProducersConfig, SampleMut,
};

use crate::common::{config, fill, layout, rest};

/// 9 slots ahead and a batch of 4, each of two lines.
const BYTES: usize = 13 * 128;

#[test]
fn all_producers_share_a_budget() {
    let budget = Budget::new(2 * BYTES + 127);
    let config = ProducersConfig { budget: budget.clone(), ..config() };
    let start = || Producers::threads(2, layout(), config.clone(), fill);
    let (first, second) = (start().unwrap(), start().unwrap());
    let error = start().unwrap_err().to_string();
    assert!(error.contains("128 bytes for slots are not to be had"), "{error}");
    // What the third one had taken before it failed came back.
    assert_eq!(budget.used(), 2 * BYTES);
    drop(first);
    assert_eq!(budget.used(), BYTES);
    let third = start().unwrap();
    drop((second, third));
    assert_eq!(budget.used(), 0);
}

/// The memory that the process occupies, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// 100 epochs of 200 samples of 64 KiB: 1.2 GiB go through, 13 slots of them are in memory. Other
/// tests of this program use far less than what is allowed here.
#[test]
fn memory_does_not_grow_with_the_epochs() {
    let layout = Layout::new([Field::new("x", DType::U8, [1 << 16])]).unwrap();
    let config = ProducersConfig { samples: 200, epochs: 100, ..config() };
    let make = |claim: &Claim, sample: &mut SampleMut<'_>| {
        sample.field::<u8>(0).fill(claim.index as u8);
        Ok(())
    };
    let mut producers = Producers::threads(2, layout, config, make).unwrap();
    let mut warm = None;
    while let Some(batch) = producers.next().unwrap() {
        if batch.epoch() == 2 {
            warm = warm.or_else(|| Some(resident()));
        }
    }
    let grown = resident().saturating_sub(warm.unwrap());
    assert!(grown < 8 << 10, "{grown} KiB");
    assert_eq!(producers.stop().counts.delivered, 20_000);
}

/// Nothing of a run is left in the budget or in the list of threads.
#[test]
fn a_run_leaves_nothing_behind() {
    let budget = Budget::new(1 << 20);
    let config = ProducersConfig { budget: budget.clone(), ..config() };
    for _ in 0..20 {
        let mut producers = Producers::threads(3, layout(), config.clone(), fill).unwrap();
        rest(&mut producers);
        assert_eq!(producers.stop().left_behind, 0);
    }
    assert_eq!(budget.used(), 0);
}
