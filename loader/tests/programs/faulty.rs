//! A producer that goes wrong in a way that is told: `faulty-producer FAULT MARK`.
//!
//! The fault happens at sample 7, once: whoever makes the file MARK goes wrong. Frames are made
//! here by hand from the tables of `PROTOCOL.md`, so that they are also a check of these.
//!
//! `faulty-producer train FAULT MARK` is a trainer of two such producers, which prints their
//! process numbers once all are at work.

mod known;

use std::fs::{File, OpenOptions};
use std::io::{Write, stdin};
use std::os::fd::AsFd;
use std::process::{Command, exit};
use std::time::Duration;

use known::fill;
use millrace_loader::producers::{
    DType, Field, Layout, Made, ProducerState, Producers, ProducersConfig, SampleMut, serve,
};
use rustix::process::{Signal, getpid, kill_process};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["train", fault, mark] => train(fault, mark),
        ["no-hello", _] => sleep(),
        ["early", _] => {
            eprintln!("no licence for this library");
            exit(5);
        }
        [fault, mark] => produce(fault, mark),
        _ => panic!("usage: faulty-producer [train] FAULT MARK"),
    }
}

fn sleep() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn produce(fault: &str, mark: &str) {
    let link = File::from(stdin().as_fd().try_clone_to_owned().unwrap());
    let (fault, mark) = (fault.to_owned(), mark.to_owned());
    let every_time = fault.starts_with("always-");
    let result = serve("faulty", move |claim, sample| {
        if claim.index == 7
            && (every_time || OpenOptions::new().write(true).create_new(true).open(&mark).is_ok())
        {
            fail(fault.trim_start_matches("always-"), &link, sample)?;
        }
        fill(claim, sample)
    });
    if let Err(error) = result {
        eprintln!("{error}");
        exit(1);
    }
}

/// A frame as the protocol describes it.
fn frame(kind: u16, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut header = Vec::from(*b"MRCE");
    header.extend(1u16.to_le_bytes());
    header.extend(kind.to_le_bytes());
    header.extend(sequence.to_le_bytes());
    header.extend((body.len() as u32).to_le_bytes());
    header.extend(0u32.to_le_bytes());
    header.extend(crc32fast::hash(body).to_le_bytes());
    sealed(header, body)
}

fn sealed(mut header: Vec<u8>, body: &[u8]) -> Vec<u8> {
    header.truncate(28);
    header.extend(crc32fast::hash(&header).to_le_bytes());
    [&header, body].concat()
}

/// The body of a sample: x of this type and shape, and y.
fn sample(bytes: u64, checksum: u32, dtype: u8, axis: u32) -> Vec<u8> {
    let mut body = Vec::from(bytes.to_le_bytes());
    body.extend(checksum.to_le_bytes());
    body.extend(2u32.to_le_bytes());
    body.extend([dtype, 1, 0, 0]);
    body.extend(axis.to_le_bytes());
    body.extend([1, 0, 0, 0]);
    body
}

fn fail(fault: &str, mut link: &File, to: &SampleMut<'_>) -> Made {
    // Without shuffle and with one claim at a time, sample 7 of epoch 0 is claim 7.
    let good = frame(4, 7, &sample(13, 0, 9, 3));
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let resealed = |at: usize, byte: u8| {
        let frame = with(at, byte);
        sealed(frame[..32].to_vec(), &frame[32..])
    };
    let bytes = match fault {
        "none" => return Ok(()),
        "bad" => return Err("images/7.png: half a file".into()),
        "panic" => panic!("index out of range"),
        "kill" => return kill_process(getpid(), Signal::KILL).map_err(Into::into),
        "stop" => return kill_process(getpid(), Signal::STOP).map_err(Into::into),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "sleep" => sleep(),
        "exit" => {
            eprintln!("cannot open /data/7.png");
            exit(3);
        }
        "child" => {
            // Holds standard output and error open, and would live on for an hour.
            Command::new("sleep").arg("3600").spawn()?;
            exit(4);
        }
        "shout" => {
            for _ in 0..1000 {
                eprintln!("{}", "much to say ".repeat(700));
            }
            return Ok(());
        }
        "beat" => {
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_millis(700) {
                to.beat();
                std::thread::yield_now();
            }
            return Ok(());
        }
        "close" => {
            // The link of this program is a copy; both ends of it are closed for good.
            rustix::net::shutdown(link, rustix::net::Shutdown::Both)?;
            sleep();
        }
        "magic" => with(0, b'm'),
        "version" => resealed(4, 2),
        "kind" => resealed(6, 99),
        "welcome" => frame(2, 0, b""),
        "twice" => frame(1, 0, b"hello"),
        "header" => with(9, 1),
        "length" => resealed(18, 0xff),
        "body" => with(32, 99),
        "short" => frame(4, 7, b"abc"),
        "sequence" => frame(4, 8, &sample(13, 0, 9, 3)),
        "bytes" => frame(4, 7, &sample(14, 0, 9, 3)),
        "dtype" => frame(4, 7, &sample(13, 0, 5, 3)),
        "shape" => frame(4, 7, &sample(13, 0, 9, 4)),
        "checksum" => frame(4, 7, &sample(13, 0x1234_5678, 9, 3)),
        "noise" => (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
        "half" => good[..good.len() - 1].to_vec(),
        other => panic!("no fault {other:?}"),
    };
    link.write_all(&bytes)?;
    if fault == "half" {
        exit(0);
    }
    Ok(())
}

fn train(fault: &str, mark: &str) {
    let layout =
        Layout::new([Field::new("x", DType::F32, [3]), Field::new("y", DType::U8, [])]).unwrap();
    let config = ProducersConfig { samples: 1000, deadline: None, ..ProducersConfig::default() };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([fault, mark]);
    let producers = Producers::processes(2, command, layout, config).unwrap();
    let pids = loop {
        let status = producers.status();
        let starting = |state| state == ProducerState::Starting;
        if !status.producers.iter().any(|producer| starting(producer.state))
            && (mark.is_empty() || File::open(mark).is_ok())
        {
            break status.producers.into_iter().filter_map(|producer| producer.pid);
        }
        std::thread::yield_now();
    };
    let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
    println!("{}", pids.join(" "));
    sleep();
}
