//! The table as CSV.

use std::collections::BTreeSet;
use std::io;

use super::MEASURES;
use crate::result::Row;

/// Header, then a row per run. A number that is missing is an empty field; the status
/// beside it says why.
pub(super) fn write(rows: &[Row], writer: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    let factors = factors(rows);
    let mut header = ["combination", "arena", "loader"].map(str::to_owned).to_vec();
    header.extend(factors.iter().map(|&key| key.to_owned()));
    header.extend(["repetition", "outcome"].map(str::to_owned));
    for measure in MEASURES {
        header.push(measure.key.to_owned());
        header.push(format!("{}_status", measure.key));
    }
    writer.write_record(&header)?;
    for row in rows {
        writer.write_record(record(row, &factors))?;
    }
    writer.flush()
}

/// Factors that have a column besides arena and loader, which always do.
fn factors(rows: &[Row]) -> Vec<&str> {
    let keys: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.levels.keys().map(String::as_str)).collect();
    keys.into_iter().filter(|key| !["arena", "loader"].contains(key)).collect()
}

fn record(row: &Row, factors: &[&str]) -> Vec<String> {
    let missing = row.missing();
    let mut record = vec![
        row.combination.to_string(),
        row.combination.arena.to_string(),
        row.combination.loader.to_string(),
    ];
    record.extend(factors.iter().map(|&key| row.levels.get(key).cloned().unwrap_or_default()));
    record.push(row.repetition.to_string());
    record.push(missing.clone().unwrap_or_else(|| "finished".to_owned()));
    for measure in MEASURES {
        let (value, status) = match row.result().map(|result| measure.of(result)) {
            Some(reading) => (reading.value().map(|value| value.to_string()), reading.status()),
            None => (None, format!("unavailable: {}", missing.as_deref().unwrap_or_default())),
        };
        record.extend([value.unwrap_or_default(), status]);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combination::Combination;
    use crate::result::{Outcome, example};

    #[test]
    fn every_number_has_a_status_and_nothing_missing_is_zero() {
        let combination = Combination::ALL[0];
        let finished = Outcome::Finished { result: Box::new(example(combination)) };
        let failed = Outcome::Failed { reason: "killed by signal 9".to_owned() };
        let mut rows =
            [Row::single(combination, finished), Row::single(Combination::ALL[1], failed)];
        rows[1].levels.insert("workers".to_owned(), "3".to_owned());
        let mut bytes = Vec::new();
        write(&rows, &mut bytes).expect("in-memory write");
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let header = reader.headers().expect("a header").clone();
        let records: Vec<csv::StringRecord> =
            reader.records().collect::<Result<_, _>>().expect("valid CSV");
        assert_eq!(records.len(), 2);
        let field = |row: usize, key: &str| {
            let index = header.iter().position(|name| name == key).expect(key);
            records[row].get(index).expect("same length").to_owned()
        };
        assert_eq!(field(0, "test_accuracy"), "0.625");
        assert_eq!(field(0, "test_accuracy_status"), "measured");
        assert_eq!(field(0, "llc_load_miss_ratio"), "");
        assert!(field(0, "llc_load_miss_ratio_status").starts_with("unavailable: perf_event_open"));
        assert_eq!((field(0, "workers"), field(1, "workers")), (String::new(), "3".to_owned()));
        assert_eq!(field(1, "outcome"), "failed: killed by signal 9");
        assert!(field(1, "run_seconds_status").starts_with("unavailable: failed"));
    }
}
