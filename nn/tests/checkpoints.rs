//! Checkpoints and files of weights: exchange with PyTorch, damage, and writers that are killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millrace_nn::checkpoint::{
    Checkpoint, CheckpointError, Progress, State, Tensor, Tensors, Values,
};
use millrace_nn::metrics::{EpochRecord, EpochSums, Score};
use millrace_nn::{Adam, Clip, Course, Decay, Schedule};
use proptest::prelude::*;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// A parameter as `fixtures/make_weights.py` fills it.
fn pattern(dims: &[usize], place: usize) -> Vec<f32> {
    let value = |i: usize| ((37 * i + 11 * place) % 251) as f32 / 1024.0 - 125.0 / 1024.0;
    (0..dims.iter().product()).map(value).collect()
}

#[test]
fn weights_are_exchanged_with_pytorch_both_ways() {
    let text = fs::read_to_string(fixture("weights.json")).unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let path = fixture(&format!("{}.safetensors", case["network"].as_str().unwrap()));
        let parameters: Vec<(String, Vec<usize>)> =
            serde_json::from_value(case["parameters"].clone()).unwrap();
        let read = Tensors::read(&path).unwrap();
        read.expect(parameters.iter().map(|(name, dims)| (name.as_str(), &dims[..]))).unwrap();
        let mut own = Tensors::new();
        for (place, (name, dims)) in parameters.iter().enumerate() {
            let values = pattern(dims, place);
            assert_eq!(read.elements::<f32>(name).unwrap(), values, "{name}");
            own.insert(name, Tensor::of(dims, &values));
        }
        assert!(own.to_bytes() == fs::read(&path).unwrap(), "the bytes that PyTorch wrote");
    }
}

/// A checkpoint of a run in the middle of its third epoch. `mark` is in all of its parts.
fn checkpoint(mark: u64) -> Checkpoint {
    let score = |loss| Score { loss, accuracy: 1.0 / 3.0, mean_iou: Some(0.1 + 0.2) };
    let record = |epoch| EpochRecord {
        epoch,
        updates: 100,
        learning_rate: 0.1,
        training: score(0.7),
        validation: (epoch == 1).then(|| score(1e-300)),
    };
    let adam = Adam { decay: Decay::Decoupled(0.1), ..Adam::new(1e-3).unwrap() };
    let course = Course::Cosine { updates: 300, floor: 0.1 };
    let state = State {
        network: "layers: \"many\"\n".to_owned(),
        optimiser: adam.into(),
        schedule: Schedule { warm_up: 10, course, ..Schedule::default() },
        clip: Some(Clip::new(5.0).unwrap()),
        progress: Progress { epoch: 2, batch: 7, updates: mark },
        seeds: [("run".to_owned(), u64::MAX), ("initial values".to_owned(), 3)].into(),
        epochs: vec![record(0), record(1)],
        sums: Some(EpochSums { batches: 7, samples: 70, loss: 1.0 / 7.0, accuracy: 3.5 }),
    };
    let (mut weights, mut memory) = (Tensors::new(), Tensors::new());
    let value = mark as f32;
    weights.insert("conv.weight", Tensor::of(&[2, 1, 3, 1], &[value; 6]));
    weights.insert("bn.num_batches_tracked", Tensor::new(&[], Values::I64(vec![mark as i64])));
    weights.insert("empty", Tensor::of::<f32>(&[0, 3], &[]));
    memory.insert("exp_avg/conv.weight", Tensor::of(&[2, 1, 3, 1], &[f64::from(value); 6]));
    Checkpoint { state, weights, memory }
}

/// A folder with a checkpoint `last.json`.
fn saved(mark: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.json");
    checkpoint(mark).save(&path).unwrap();
    (folder, path)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_later_save_takes_the_place_of_the_earlier_and_of_what_killed_writers_left() {
    let (folder, path) = saved(1);
    let own = ["last-1.optimiser.safetensors", "last-1.safetensors", "last.json"];
    assert_eq!(names(folder.path()), own);
    let left = [".last.json.tmp", ".last-2.safetensors.tmp", "last-2.safetensors"];
    let others = ["last-x.safetensors", "last-1-2.safetensors", "best-1.safetensors", "last-1.txt"];
    for name in left.into_iter().chain(others) {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint(1));

    checkpoint(2).save(&path).unwrap();
    assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint(2));
    let own = ["last-3.optimiser.safetensors", "last-3.safetensors", "last.json"];
    let mut wanted: Vec<_> = own.into_iter().chain(others).collect();
    wanted.sort();
    assert_eq!(names(folder.path()), wanted);
}

#[test]
fn a_file_is_replaced_as_a_whole_not_written_over() {
    let (folder, path) = saved(1);
    let before = fs::read(&path).unwrap();
    let link = folder.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    checkpoint(2).save(&path).unwrap();
    assert_eq!(fs::read(&link).unwrap(), before);
}

#[test]
fn a_save_that_fails_leaves_the_last_one() {
    let (folder, path) = saved(1);
    // The second file of the next save cannot be written, as a folder has its temporary name.
    let taken = folder.path().join(".last-2.optimiser.safetensors.tmp");
    fs::create_dir(&taken).unwrap();
    let error = checkpoint(2).save(&path).unwrap_err();
    assert!(error.to_string().contains("last-2.optimiser.safetensors"), "{error}");
    assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint(1));

    let error = checkpoint(1).save(folder.path().join("no/last.json")).unwrap_err();
    assert!(matches!(error, CheckpointError::Io { action: "read", .. }), "{error}");
    for wrong in ["last", "last.txt", ".."] {
        let error = checkpoint(1).save(folder.path().join(wrong)).unwrap_err();
        assert!(error.to_string().contains("ends in .json"), "{error}");
    }
}

/// Saves on and on, and tells after each save that it is done: the process that
/// [`a_killed_writer_leaves_a_whole_checkpoint`] kills.
#[test]
#[ignore = "runs until it is killed; another test starts it"]
fn writer() {
    let Some(path) = std::env::var_os("CHECKPOINT") else { return };
    for mark in 1..1_000_000 {
        let mut checkpoint = checkpoint(mark);
        let large = Tensor::of(&[100_000], &vec![mark as f32; 100_000]);
        checkpoint.weights.insert("large", large);
        checkpoint.save(&path).unwrap();
        println!("saved {mark}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.json");
    for saves in 1..8 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--ignored", "--nocapture"])
            .env("CHECKPOINT", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).filter(|line| line.contains("saved")).nth(saves - 1);
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(told.is_some(), "the writer ended by itself");

        let mut found = Checkpoint::load(&path).unwrap();
        let mark = found.state.progress.updates;
        assert!(mark >= saves as u64, "{mark}");
        assert_eq!(found.weights.elements::<f32>("large").unwrap(), vec![mark as f32; 100_000]);
        let mut own = Tensors::new();
        for (name, tensor) in found.weights.iter().filter(|(name, _)| *name != "large") {
            own.insert(name, tensor.clone());
        }
        found.weights = own;
        assert_eq!(found, checkpoint(mark));
    }
    checkpoint(5).save(&path).unwrap();
    assert_eq!(names(folder.path()).len(), 3);
}

/// What is wrong with a checkpoint whose file `name` was changed like this.
fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> CheckpointError {
    let (folder, path) = saved(1);
    let file = folder.path().join(name);
    let mut content = fs::read(&file).unwrap();
    change(&mut content);
    fs::write(&file, content).unwrap();
    Checkpoint::load(&path).unwrap_err()
}

fn replaced(from: &str, to: &str) -> CheckpointError {
    changed("last.json", |content| {
        let text = String::from_utf8(content.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        *content = text.replacen(from, to, 1).into_bytes();
    })
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let json = "last.json";
    for file in [json, "last-1.safetensors", "last-1.optimiser.safetensors"] {
        for len in [0, 5, 40, 100] {
            let error = changed(file, |content| content.truncate(len));
            assert!(matches!(error, CheckpointError::Truncated { .. }), "{file} {len}: {error}");
            assert!(error.to_string().contains(file), "{error}");
        }
    }
    let weights = "last-1.safetensors";
    let longer = changed(weights, |content| content.push(0));
    assert!(matches!(longer, CheckpointError::Corrupt { .. }), "{longer}");
    let flipped = changed(weights, |content| *content.last_mut().unwrap() ^= 1);
    assert!(matches!(flipped, CheckpointError::Corrupt { .. }), "{flipped}");

    let error = replaced("\"version\": 1", "\"version\": 2, \"new\": true");
    assert!(
        matches!(error, CheckpointError::TooNew { version: 2, known: 1, .. }),
        "even if it knows more: {error}"
    );
    let error = replaced("millrace checkpoint", "another format");
    assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
    let error = changed(json, |content| *content = b"a,b\n1,2\n".to_vec());
    assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
    let error = replaced("\"loss\":0.7", "\"loss\":0.6");
    assert!(matches!(error, CheckpointError::Corrupt { .. }), "{error}");

    let missing = Checkpoint::load("/no/such/last.json").unwrap_err();
    assert!(matches!(missing, CheckpointError::Io { action: "read", .. }), "{missing}");
    let (folder, path) = saved(1);
    fs::remove_file(folder.path().join("last-1.safetensors")).unwrap();
    let missing = Checkpoint::load(&path).unwrap_err();
    assert!(missing.to_string().contains("last-1.safetensors"), "{missing}");
}

/// Writes a JSON file by hand, with a checksum that fits.
fn by_hand(body: &str) -> CheckpointError {
    let (_folder, path) = saved(1);
    let crc32 = crc32fast::hash(body.as_bytes());
    let text = format!(
        "{{\"format\": \"millrace checkpoint\", \"version\": 1, \"crc32\": {crc32}, \"body\": {body}}}"
    );
    fs::write(&path, text).unwrap();
    Checkpoint::load(&path).unwrap_err()
}

#[test]
fn a_file_that_fits_its_checksum_is_still_checked() {
    let state = serde_json::to_value(&checkpoint(1).state).unwrap();
    let part = |file: &str| serde_json::json!({ "file": file, "bytes": 1, "crc32": 1 });
    let body = |file: &str, state: &serde_json::Value| {
        let memory = part("last-1.optimiser.safetensors");
        serde_json::json!({ "weights": part(file), "memory": memory, "state": state }).to_string()
    };
    for file in ["../last-1.safetensors", "/etc/hostname", "", ".."] {
        let error = by_hand(&body(file, &state));
        assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
    }
    let mut wrong = state.clone();
    wrong["optimiser"]["beta1"] = 1.5.into();
    let error = by_hand(&body("last-1.safetensors", &wrong)).to_string();
    assert!(error.contains("adam: beta1 is 1.5"), "{error}");
    let mut unknown = state;
    unknown["surprise"] = 1.into();
    let error = by_hand(&body("last-1.safetensors", &unknown)).to_string();
    assert!(error.contains("surprise"), "{error}");
}

#[test]
fn other_tensors_are_listed() {
    let weights = checkpoint(1).weights;
    let own: [(&str, &[usize]); 3] =
        [("conv.weight", &[2, 1, 3, 1]), ("bn.num_batches_tracked", &[]), ("empty", &[0, 3])];
    weights.expect(own).unwrap();
    let error = weights.expect([own[0], ("a", &[]), ("b", &[1])]).unwrap_err();
    let wanted = "missing tensors: a, b; superfluous tensors: bn.num_batches_tracked, empty";
    assert_eq!(error.to_string(), wanted);
    let error = weights.expect([("conv.weight", &[2, 3][..]), own[1], own[2]]).unwrap_err();
    assert_eq!(error.to_string(), "tensor conv.weight is 2x1x3x1, wanted 2x3");
    let error = weights.expect([own[0], ("bn.num_batches_tracked", &[1]), own[2]]).unwrap_err();
    assert_eq!(error.to_string(), "tensor bn.num_batches_tracked is a single value, wanted 1");
    let error = weights.elements::<f32>("bn.num_batches_tracked").unwrap_err();
    let wanted = "tensor bn.num_batches_tracked holds I64, wanted F32 or F64";
    assert_eq!(error.to_string(), wanted);
    let error = weights.elements::<f32>("fc").unwrap_err();
    assert_eq!(error.to_string(), "missing tensors: fc");
}

/// A file of one tensor with this header and so many bytes of values.
fn raw(header: &str, bytes: usize) -> Result<Tensors, CheckpointError> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + bytes, 0);
    Tensors::from_bytes("raw.safetensors", &file)
}

#[test]
fn a_header_is_a_claim() {
    let read = raw(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8).unwrap();
    assert_eq!(read.elements::<f32>("a").unwrap(), [0.0; 2]);
    let error = raw(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4).unwrap_err();
    assert!(matches!(error, CheckpointError::Truncated { .. }), "{error}");
    let half = raw(r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#, 4).unwrap_err();
    assert_eq!(half.to_string(), "tensor a holds F16, wanted F32, F64 or I64");
    for header in [
        r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"a":{"dtype":"no","shape":[2],"data_offsets":[0,8]}}"#,
        "no header",
    ] {
        let error = raw(header, 8).unwrap_err();
        assert!(matches!(error, CheckpointError::Foreign { .. }), "{header}: {error}");
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(Vec<(prop::sample::Index, u8)>),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
}

impl Damage {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Flip(places) => {
                for (place, bits) in places {
                    let at = place.index(content.len());
                    content[at] ^= bits;
                }
            }
            Self::Cut(place) => content.truncate(place.index(content.len())),
            Self::Insert(place, bytes) => {
                let at = place.index(content.len());
                content.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(place, len) => {
                let at = place.index(content.len());
                content.drain(at..content.len().min(at + len));
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        prop::collection::vec((place(), 1u8..), 1..4).prop_map(Damage::Flip),
        place().prop_map(Damage::Cut),
        (place(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(p, b)| Damage::Insert(p, b)),
        (place(), 1usize..30).prop_map(|(place, len)| Damage::Remove(place, len)),
    ]
}

proptest! {
    #[test]
    fn damage_is_an_error_or_changes_nothing(file in 0usize..3, damage in damage()) {
        let (folder, path) = saved(1);
        let file = folder.path().join(&names(folder.path())[file]);
        let mut content = fs::read(&file).unwrap();
        damage.apply(&mut content);
        fs::write(&file, content).unwrap();
        if let Ok(read) = Checkpoint::load(&path) {
            prop_assert_eq!(read, checkpoint(1), "white space, or a number written otherwise");
        }
    }

    #[test]
    fn a_damaged_file_of_tensors_alone_never_panics(damage in damage()) {
        let mut content = checkpoint(1).weights.to_bytes();
        damage.apply(&mut content);
        if let Ok(read) = Tensors::from_bytes("damaged", &content) {
            let again = Tensors::from_bytes("again", &read.to_bytes()).unwrap();
            prop_assert_eq!(read.len(), again.len());
        }
    }
}
