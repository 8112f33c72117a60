//! Draws figures of made-up traces into a folder: `pictures FOLDER`.

use std::path::Path;

use millrace_gantt::{Chart, Comparison, compare, middle_batches};
use millrace_runtime::trace::Trace;

#[path = "../tests/all/support.rs"]
mod support;

use support::{Plan, dense, simulate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: pictures FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let save = |name: &str, svg: String| std::fs::write(folder.join(name), svg);

    let five = simulate(&Plan { batches_per_epoch: 3, ..Plan::new("single/naive", 2, 5) });
    save("five.svg", Chart::new(&five).render()?)?;
    let many = simulate(&Plan { barrier: false, ..Plan::new("double/advanced", 4, 500) });
    save("many.svg", Chart::new(&many).render()?)?;
    save("middle.svg", Chart::new(&many).batches(middle_batches(&many, 4)).render()?)?;
    let slow = simulate(&Plan::new("single/naive", 4, 500));
    save("slow.svg", Chart::new(&slow).render()?)?;
    let medium = simulate(&Plan { batches_per_epoch: 30, ..Plan::new("single/double", 2, 60) });
    save("medium.svg", Chart::new(&medium).render()?)?;
    let wide = simulate(&Plan::new("single/prefetch <&> \"größer\"", 16, 8));
    save("sixteen.svg", Chart::new(&wide).width(1000).render()?)?;
    save("dense.svg", Chart::new(&dense(16, 1_000_000)).render()?)?;

    let mut long = simulate(&Plan::new(&"long title ".repeat(9), 3, 120));
    long.lanes[1].name = "a worker with a long name".into();
    long.names[1] = "a task kind with a long name ".repeat(5);
    long.dropped = 12;
    save("narrow.svg", Chart::new(&long).width(500).render()?)?;
    save("narrow-two.svg", compare(&[&long, &five], &Comparison::default().width(500))?)?;

    let mut traces = Vec::new();
    for arena in ["single", "double"] {
        for (index, loader) in ["naive", "prefetch", "double", "advanced"].iter().enumerate() {
            let barrier = arena == "single" && *loader != "advanced";
            let plan = Plan::new(&format!("{arena}/{loader}"), 2, 30 + index as u32);
            traces.push(simulate(&Plan { barrier, late: *loader == "naive", ..plan }));
        }
    }
    let traces: Vec<&Trace> = traces.iter().collect();
    let options = Comparison::default().title("All combinations").batches(10..15);
    save("compare.svg", compare(&traces, &options)?)?;
    save("compare-all.svg", compare(&traces, &Comparison::default().title("All combinations"))?)?;
    Ok(())
}
