//! Producers in Python, where there is one with numpy: `MILLRACE_PYTHON`, or else `python3`.

use std::path::Path;
use std::process::Command;

use millrace_loader::producers::{
    BadSamples, DType, Field, Layout, Producers, ProducersConfig, sample_seed,
};

const PROGRAM: &str = "\
import sys, numpy
from millrace_producer import producer, beat

@producer
def make(epoch, index, seed):
    beat()
    if index == 5 and sys.argv[1] == 'bad':
        raise ValueError('images/5.png: half a file')
    if index == 5 and sys.argv[1] == 'type':
        return numpy.zeros((2, 3)), numpy.uint8(1)
    x = numpy.array([[epoch, index, seed >> 40], [1, 2, 3]], dtype='float32')
    return x, numpy.uint8(index)
";

/// A Python with numpy, if there is one.
fn python() -> Option<String> {
    let program = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&program).args(["-c", "import numpy"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    eprintln!("not tested: {program} is not there or has no numpy (MILLRACE_PYTHON names another)");
    None
}

fn command(python: &str, folder: &Path, fault: &str) -> Command {
    let program = folder.join("program.py");
    std::fs::write(&program, PROGRAM).unwrap();
    let mut command = Command::new(python);
    command.arg(program).arg(fault);
    command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"));
    command
}

fn layout() -> Layout {
    let fields = [Field::new("x", DType::F32, [2, 3]), Field::new("y", DType::U8, [])];
    Layout::new(fields).unwrap()
}

#[test]
fn a_function_in_python_is_a_producer() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for checksum in [false, true] {
        let config = ProducersConfig {
            samples: 23,
            batch_size: 4,
            epochs: 2,
            seed: 9,
            checksum,
            ..ProducersConfig::default()
        };
        let command = command(&python, folder.path(), "none");
        let mut producers = Producers::processes(2, command, layout(), config).unwrap();
        let mut samples = 0;
        while let Some(batch) = producers.next().unwrap() {
            for sample in batch.samples() {
                let seed = (sample_seed(9, batch.epoch(), sample.index()) >> 40) as f32;
                let x = [batch.epoch() as f32, sample.index() as f32, seed, 1.0, 2.0, 3.0];
                assert_eq!(sample.field::<f32>(0), x);
                assert_eq!(u32::from(sample.field::<u8>(1)[0]), sample.index());
                samples += 1;
            }
        }
        assert_eq!(samples, 46);
        assert_eq!(producers.stop().ended, Default::default());
    }
}

#[test]
fn exceptions_and_wrong_arrays_are_bad_samples() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (fault, cause) in [
        ("bad", "ValueError: images/5.png: half a file (program.py:8)"),
        ("type", "ValueError: float64[2, 3] was made, the trainer wants x: float32[2, 3]"),
    ] {
        let config = ProducersConfig {
            samples: 10,
            bad: BadSamples::Skip { limit: 1 },
            ..ProducersConfig::default()
        };
        let command = command(&python, folder.path(), fault);
        let mut producers = Producers::processes(2, command, layout(), config).unwrap();
        assert_eq!(producers.next().unwrap().unwrap().len(), 9);
        let status = producers.stop();
        assert!(status.bad[0].cause.starts_with(cause), "{:?}", status.bad);
        assert_eq!(status.bad[0].index, 5);
    }
}

#[test]
fn started_by_hand_it_says_what_is_wrong() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&python, folder.path(), "none");
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("standard input is no link to a trainer"), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1));
}
