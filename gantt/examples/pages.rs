//! Makes the interactive pages that the browser tests open: `pages FOLDER`.

use std::path::Path;

use millrace_gantt::Page;
use millrace_runtime::trace::Trace;

#[path = "../tests/all/support.rs"]
mod support;

use support::{Plan, dense, simulate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: pages FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let save = |name: &str, page: String| std::fs::write(folder.join(name), page);

    let known = Trace::read_json(&include_bytes!("../tests/browser/known.json")[..])?;
    save("known.html", Page::new(&known).render()?)?;
    save("ten.html", Page::new(&simulate(&Plan::new("ten tasks", 2, 1))).render()?)?;
    let mut later = known.clone();
    later.title = "later".into();
    for span in &mut later.spans {
        (span.start, span.end) = (2 * span.start + 500, 2 * span.end + 500);
    }
    for mark in &mut later.marks {
        mark.time = 2 * mark.time + 500;
    }
    save("two.html", Page::new(&known).beside(&later).title("two runs").render()?)?;
    let mut lossy = simulate(&Plan::new("with losses", 16, 60));
    lossy.dropped = 3;
    save("sixteen.html", Page::new(&lossy).batches(10..12).render()?)?;
    save("million.html", Page::new(&dense(8, 1_000_000)).render()?)?;
    Ok(())
}
