//! What is printed on standard output, and warnings.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;
use crate::result::Row;
use crate::table;

/// Columns of a standard output that is no terminal: enough for all combinations side by side.
const FILE_WIDTH: usize = 150;

/// Prints the table, for people or as JSON.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(rows: &[Row], json: bool) -> Result<(), Failure> {
    write(|stdout| match json {
        true => table::write_json(rows, stdout),
        false => stdout.write_all(table::terminal(rows, width()).as_bytes()),
    })
}

/// Writes to standard output.
///
/// # Errors
/// When that fails.
pub fn write(content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    content(&mut stdout).and_then(|()| stdout.flush()).map_err(|error| Failure::stdout(&error))
}

/// Prints one line.
///
/// # Errors
/// When standard output cannot be written.
pub fn say(line: &str) -> Result<(), Failure> {
    write(|stdout| writeln!(stdout, "{line}"))
}

/// Prints a warning on standard error.
pub fn warn(text: impl Display) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(io::stderr(), "warning: {text}");
}

fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return FILE_WIDTH;
    }
    match rustix::termios::tcgetwinsize(&stdout) {
        // A terminal of 0 columns does not know its size.
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => FILE_WIDTH,
    }
}
