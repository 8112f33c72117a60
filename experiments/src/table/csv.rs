//! The table as CSV.

use std::io;

use super::MEASURES;
use crate::result::Row;

/// Header, then a row per combination. A number that is missing is an empty field; the status
/// beside it says why.
pub(super) fn write(rows: &[Row], writer: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    let mut header: Vec<String> =
        ["combination", "arena", "loader", "outcome"].map(str::to_owned).to_vec();
    for measure in MEASURES {
        header.push(measure.key.to_owned());
        header.push(format!("{}_status", measure.key));
    }
    writer.write_record(&header)?;
    for row in rows {
        writer.write_record(record(row))?;
    }
    writer.flush()
}

fn record(row: &Row) -> Vec<String> {
    let missing = row.missing();
    let mut record = vec![
        row.combination.to_string(),
        row.combination.arena.to_string(),
        row.combination.loader.to_string(),
        missing.clone().unwrap_or_else(|| "finished".to_owned()),
    ];
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
        let rows = [
            Row {
                combination,
                outcome: Outcome::Finished { result: Box::new(example(combination)) },
            },
            Row {
                combination: Combination::ALL[1],
                outcome: Outcome::Failed { reason: "killed by signal 9".to_owned() },
            },
        ];
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
        assert_eq!(field(1, "outcome"), "failed: killed by signal 9");
        assert!(field(1, "run_seconds_status").starts_with("unavailable: failed"));
    }
}
