//! What figures show, read back from the documents.

use millrace_gantt::{Chart, Comparison, GanttError, Summary, compare, middle_batches};
use millrace_runtime::trace::{Cause, LaneKind, Mark, MarkKind, SpanKind, Trace};
use roxmltree::Document;

use crate::raster::{
    assert_texts_apart, assert_texts_off_lines, is_green, is_red, lanes, texts, visible,
};
use crate::support::{Plan, dense, empty, simulate, span};
use crate::{raster, support};

const LIMIT: usize = 2_000_000;

fn red_share(document: &Document<'_>, lane: raster::Rect) -> f64 {
    visible(document, lane).iter().filter(|(fill, _)| is_red(fill)).map(|(_, share)| share).sum()
}

/// Lines of batches cover a little of every lane; the tests of areas do without.
fn unmarked(mut trace: Trace) -> Trace {
    trace.marks.clear();
    trace
}

fn assert_red_is_idle(trace: &Trace, tolerance: f64) {
    let svg = Chart::new(trace).render().expect("a figure");
    let document = Document::parse(&svg).expect("XML");
    let summary = Summary::of(trace).expect("a summary");
    let drawn = lanes(&document);
    assert_eq!(drawn.len(), trace.lanes.len());
    for (rect, lane) in drawn.into_iter().zip(&summary.lanes) {
        if lane.kind == LaneKind::Worker {
            let wanted = lane.idle.total() as f64 / summary.makespan as f64;
            let found = red_share(&document, rect);
            assert!((wanted - found).abs() < tolerance, "{}: {found}, not {wanted}", lane.name);
        }
    }
}

#[test]
fn each_worker_has_a_labelled_lane_with_tasks_and_sleep() {
    for workers in [1, 2, 16] {
        for batches in [1, 5, 500] {
            let trace = simulate(&Plan::new("single/naive", workers, batches));
            let svg = Chart::new(&trace).render().expect("a figure");
            let document = Document::parse(&svg).expect("XML");
            let (texts, drawn) = (texts(&document), lanes(&document));
            let summary = Summary::of(&trace).expect("a summary");
            assert_eq!(drawn.len(), workers as usize + 1);
            assert_eq!(texts.iter().filter(|(_, text)| *text == "main").count(), 1);
            for worker in 0..workers {
                let label = format!("worker {worker}");
                let (node, _) = texts.iter().find(|(_, text)| *text == label).expect("a label");
                let lane = drawn[worker as usize + 1];
                let y: f64 = node.attribute("y").expect("y").parse().expect("a number");
                assert!((lane.y0..lane.y1).contains(&y), "{label} is beside its lane");
                let visible = visible(&document, lane);
                assert!(visible.keys().any(|fill| is_green(fill)), "{label}: {visible:?}");
                let sleeps = summary.lanes[worker as usize + 1].idle.total() > 0;
                let red = visible.keys().any(|fill| is_red(fill));
                assert_eq!(red, sleeps, "{label}: {visible:?}");
            }
            assert_texts_apart(&document);
        }
    }
}

#[test]
fn the_red_area_is_the_idle_time() {
    for batches in [5, 60, 500] {
        assert_red_is_idle(&unmarked(simulate(&Plan::new("single/naive", 2, batches))), 0.01);
    }
    assert_red_is_idle(&dense(3, 60_000), 0.005);
}

/// A share far below what one column can show adds up over all columns.
#[test]
fn rare_sleep_is_not_lost() {
    let mut trace = dense(1, 0);
    for index in 0..200_000 {
        let (kind, length) =
            if index % 2 == 0 { (SpanKind::Task, 10_000) } else { (SpanKind::Idle, 30) };
        let start = (index / 2) * 10_030 + if index % 2 == 0 { 0 } else { 10_000 };
        let cause = if index % 2 == 0 { Cause::None } else { Cause::Loader };
        trace.spans.push(span(1, kind, 0, cause, (start, start + length)));
    }
    let svg = Chart::new(&trace).render().expect("a figure");
    let red = svg.lines().filter(|line| line.contains("polygon"));
    let area: f64 = red.filter(|line| is_red(fill(line))).map(polygon_area).sum();
    let lane = lanes(&Document::parse(&svg).expect("XML"))[1];
    let share = area / ((lane.x1 - lane.x0) * (lane.y1 - lane.y0));
    assert!((share / (30.0 / 10_030.0) - 1.0).abs() < 0.01, "{share}");
}

fn fill(line: &str) -> &str {
    line.split("fill=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

fn polygon_area(line: &str) -> f64 {
    let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
    let pairs = points.expect("points").split_whitespace().filter_map(|p| p.split_once(','));
    let points: Vec<(f64, f64)> =
        pairs.map(|(x, y)| (x.parse().expect("x"), y.parse().expect("y"))).collect();
    let next = points.iter().cycle().skip(1);
    points.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum::<f64>().abs() / 2.0
}

#[test]
fn a_million_spans_make_a_small_document() {
    for workers in [1, 16] {
        let trace = dense(workers, 1_000_000);
        let svg = Chart::new(&trace).width(2000).render().expect("a figure");
        assert!(svg.len() < LIMIT, "{workers} workers: {} bytes", svg.len());
    }
    let traces: Vec<Trace> = (1..=8).map(|workers| dense(workers, 50_000)).collect();
    let traces: Vec<&Trace> = traces.iter().collect();
    let svg = compare(&traces, &Comparison::default()).expect("a figure");
    assert!(svg.len() < LIMIT, "comparison: {} bytes", svg.len());
}

/// Task, a sleep of a third of a pixel, then nothing: what is painted under the sleep to keep
/// the background out must not show beyond it.
#[test]
fn short_sleep_before_a_gap_keeps_all_areas() {
    let mut trace = empty("gaps");
    trace.lanes = support::lanes(1);
    trace.names = vec!["load".into()];
    for start in (0..1_000_000).step_by(5_000) {
        let middle = start + 2_100;
        trace.spans.push(span(1, SpanKind::Task, 0, Cause::None, (start, middle)));
        trace.spans.push(span(1, SpanKind::Idle, 0, Cause::Loader, (middle, middle + 300)));
    }
    let svg = Chart::new(&trace).render().expect("a figure");
    assert!(!svg.contains("<polygon"), "few enough to be drawn one by one");
    let document = Document::parse(&svg).expect("XML");
    let visible = visible(&document, lanes(&document)[1]);
    let share = |wanted: fn(&str) -> bool| -> f64 {
        visible.iter().filter(|(fill, _)| wanted(fill)).map(|(_, share)| share).sum()
    };
    let summary = Summary::of(&trace).expect("a summary");
    let exact = |time: u64| time as f64 / summary.makespan as f64;
    let (green, red) = (share(is_green), share(is_red));
    assert!((green - exact(summary.busy())).abs() < 0.01, "{green}");
    assert!((red - exact(summary.idle().total())).abs() < 0.005, "{red}");
}

#[test]
fn few_spans_are_drawn_one_by_one() {
    let mut trace = empty("few");
    trace.lanes = support::lanes(1);
    trace.names = vec!["relu.forward".into()];
    trace.spans = (0..7)
        .map(|i| span(1, SpanKind::Task, 0, Cause::None, (i * 1000, i * 1000 + 1000)))
        .collect();
    let svg = Chart::new(&trace).render().expect("a figure");
    let document = Document::parse(&svg).expect("XML");
    let lane = lanes(&document)[1];
    let rects = document.descendants().filter(|node| node.has_tag_name("rect"));
    let rects: Vec<_> = rects.map(|node| raster::Rect::of(&node)).collect();
    let inside = |r: &&raster::Rect| r.y0 == lane.y0 && r.y1 == lane.y1;
    // The background and seven spans.
    assert_eq!(rects.iter().filter(inside).count(), 8);
    let green: f64 =
        visible(&document, lane).iter().filter(|(f, _)| is_green(f)).map(|(_, s)| s).sum();
    assert!(green > 0.99, "{green}");
}

#[test]
fn legends_list_what_occurs_and_nothing_else() {
    let trace = simulate(&Plan { late: false, ..Plan::new("double/x", 2, 6) });
    let svg = Chart::new(&trace).render().expect("a figure");
    let document = Document::parse(&svg).expect("XML");
    let said: Vec<&str> = texts(&document).into_iter().map(|(_, text)| text).collect();
    let drain = Summary::of(&trace).expect("a summary").waits().get(Cause::Drain);
    assert!(drain > 0);
    for there in ["double/x", "conv2d.forward", "sgd.update", "no ready task", "drain"] {
        assert_eq!(said.iter().filter(|text| **text == there).count(), 1, "{there}");
    }
    for absent in ["loader late", "window full", "acquire", "other tasks"] {
        assert!(!said.contains(&absent), "{absent}");
    }
}

#[test]
fn batches_and_epochs_are_marked_and_thinned() {
    let numbers = |svg: &str| -> Vec<u32> {
        let document = Document::parse(svg).expect("XML");
        let axis = lanes(&document).last().expect("a lane").y1;
        let above = |node: &roxmltree::Node<'_, '_>| {
            node.attribute("y").and_then(|y| y.parse::<f64>().ok()).is_some_and(|y| y < axis)
        };
        let texts = texts(&document).into_iter().filter(|(node, _)| above(node));
        texts.filter_map(|(_, text)| text.parse().ok()).collect()
    };
    let five = simulate(&Plan { batches_per_epoch: 3, ..Plan::new("few", 2, 5) });
    let svg = Chart::new(&five).render().expect("a figure");
    assert_eq!(numbers(&svg), [0, 1, 2, 3, 4]);
    assert!(svg.contains("epoch 0") && svg.contains("epoch 1") && !svg.contains("epoch 2"));
    let many = simulate(&Plan::new("many", 2, 500));
    let shown = numbers(&Chart::new(&many).render().expect("a figure"));
    assert!((10..60).contains(&shown.len()), "{shown:?}");
    assert!(shown.iter().all(|number| number % shown[1] == 0), "{shown:?}");
}

#[test]
fn the_facts_tell_the_batches_that_are_drawn() {
    let mut trace = simulate(&Plan::new("few", 2, 9));
    trace.meta.insert("batches".to_owned(), "0..9".to_owned());
    let facts = |chart: Chart<'_>| chart.render().expect("a figure");
    assert!(facts(Chart::new(&trace)).contains("batches 0..9"));
    let three = facts(Chart::new(&trace).batches(2..5));
    assert!(three.contains("batches 2..5") && !three.contains("0..9"));
}

#[test]
fn uneven_marks_do_not_collide() {
    let mut trace = unmarked(simulate(&Plan::new("uneven", 1, 40)));
    let mark = |time, kind, index| Mark { time, kind, index };
    for epochs in [0, 5, 30] {
        let batches = (0..60u32).map(|i| mark(u64::from(i * i) * 40_000, MarkKind::Batch, 900 + i));
        let epochs = (0..epochs).map(|i| mark(u64::from(i) * 1_700_000, MarkKind::Epoch, i));
        trace.marks = batches.chain(epochs).collect();
        for width in [500, 1200] {
            let svg = Chart::new(&trace).width(width).render().expect("a figure");
            let document = Document::parse(&svg).expect("XML");
            assert_texts_apart(&document);
            assert_texts_off_lines(&document);
        }
    }
}

#[test]
fn batches_are_cut_out_with_all_their_work() {
    let trace = simulate(&Plan { barrier: false, ..Plan::new("cut", 2, 40) });
    assert_eq!(middle_batches(&trace, 4), 18..22);
    assert_eq!(middle_batches(&trace, 100), 0..40);
    let svg = Chart::new(&trace).batches(18..22).render().expect("a figure");
    assert_texts_apart(&Document::parse(&svg).expect("XML"));
    for batches in [40..45, 5..5] {
        let (from, to) = (batches.start, batches.end);
        let error = Chart::new(&trace).batches(batches).render().expect_err("no such batches");
        assert_eq!(error, GanttError::NoBatch { title: "cut".into(), from, to });
    }
}

#[test]
fn comparisons_share_an_axis_and_show_every_trace() {
    let titles = ["single/naive", "single/prefetch", "double/naive", "double/advanced"];
    let plan = |title: &&str| Plan { barrier: title.starts_with('s'), ..Plan::new(title, 3, 9) };
    let traces: Vec<Trace> = titles.iter().map(|title| simulate(&plan(title))).collect();
    let traces: Vec<&Trace> = traces.iter().collect();
    for options in [Comparison::default(), Comparison::default().batches(2..6).width(900)] {
        let svg = compare(&traces, &options).expect("a figure");
        let document = Document::parse(&svg).expect("XML");
        assert_eq!(lanes(&document).len(), 4 * titles.len());
        let texts = texts(&document);
        for title in titles {
            assert_eq!(texts.iter().filter(|(_, text)| *text == title).count(), 1, "{title}");
        }
        assert_eq!(texts.iter().filter(|(_, text)| *text == "time in ms").count(), 1);
        assert_texts_apart(&document);
    }
    assert_eq!(compare(&[], &Comparison::default()), Err(GanttError::NoTraces));
}

#[test]
fn long_names_fit_narrow_figures() {
    let mut trace = simulate(&Plan::new(&"a very long title ".repeat(9), 3, 120));
    trace.lanes[1].name = "a worker with a long name".repeat(3);
    trace.names[1] = "a task kind with a long name ".repeat(5);
    trace.meta.insert("machine".into(), "a machine of some length ".repeat(20));
    trace.dropped = 12;
    for width in [400, 700, 1200] {
        let chart = Chart::new(&trace).width(width).render().expect("a figure");
        assert_texts_apart(&Document::parse(&chart).expect("XML"));
        let options = Comparison::default().width(width).title(trace.title.clone());
        let both = compare(&[&trace, &trace], &options).expect("a figure");
        assert_texts_apart(&Document::parse(&both).expect("XML"));
    }
}

#[test]
fn any_title_and_name_is_escaped() {
    let mut trace = simulate(&Plan::new("<&\"'> größer 大 \u{1} \u{7f}\n\u{fffe}", 1, 2));
    trace.lanes[1].name = "<worker & co>".into();
    trace.names[1] = "]]> naïve <!--".into();
    trace.meta.insert("<key>".into(), "&amp;".into());
    let svg = Chart::new(&trace).render().expect("a figure");
    let document = Document::parse(&svg).expect("XML");
    let said: Vec<&str> = texts(&document).into_iter().map(|(_, text)| text).collect();
    let title = "<&\"'> größer 大 \u{fffd} \u{fffd}\u{fffd}\u{fffd}";
    for text in [title, "<worker & co>", "]]> naïve <!--"] {
        assert!(said.contains(&text), "{text} is not in {said:?}");
    }
    assert!(said.iter().any(|text| text.contains("<key> &amp;")));
}

#[test]
fn odd_traces_are_drawn_or_refused() {
    let nothing = empty("nothing");
    let error = GanttError::NoSpans { title: "nothing".into() };
    assert_eq!(Chart::new(&nothing).render(), Err(error.clone()));
    assert_eq!(compare(&[&nothing], &Comparison::default()), Err(error));
    assert_eq!(Summary::of(&nothing).expect("a summary").makespan, 0);

    let mut point = empty("point");
    point.lanes = support::lanes(1);
    point.names = vec![String::new()];
    point.spans = vec![span(1, SpanKind::Task, 0, Cause::None, (7, 7))];
    let svg = Chart::new(&point).render().expect("a figure");
    assert_texts_apart(&Document::parse(&svg).expect("XML"));
    compare(&[&point, &point], &Comparison::default()).expect("a figure");

    let mut main_only = point.clone();
    main_only.lanes.truncate(1);
    main_only.spans[0].lane = 0;
    Chart::new(&main_only).render().expect("a figure");
    compare(&[&main_only], &Comparison::default()).expect("a figure");

    let refused = |change: fn(&mut Trace)| {
        let mut trace = point.clone();
        change(&mut trace);
        let error = Chart::new(&trace).render().expect_err("refused").to_string();
        assert_eq!(Summary::of(&trace).expect_err("refused").to_string(), error);
        error
    };
    assert!(refused(|t| t.spans[0].lane = 2).contains("span 0: its lane does not exist"));
    assert!(refused(|t| t.spans[0].name = 1).contains("its name does not exist"));
    assert!(refused(|t| t.spans[0].start = 8).contains("ends before it starts"));
    assert!(refused(|t| t.spans[0].end = u64::MAX).contains("52 days"));
    assert!(refused(|t| t.lanes = support::lanes(5000)).contains("5001 lanes"));

    point.marks.push(Mark { time: u64::MAX, kind: MarkKind::Batch, index: u32::MAX });
    Chart::new(&point).render().expect("a figure");
    assert!(Chart::new(&point).batches(u32::MAX - 1..u32::MAX).render().is_err());
    assert!(Chart::new(&point).window(5, 5).render().is_err());
    assert!(Chart::new(&point).window(5, u64::MAX).render().is_err());
    assert!(Chart::new(&point).window(1000, 2000).render().is_ok());
    assert!(Chart::new(&point).width(10).render().is_err());
}
