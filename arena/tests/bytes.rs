//! What tasks declare, in bytes.

use millrace_arena::Arena;
use millrace_runtime::Runtime;

#[test]
fn the_bytes_of_a_kind_are_those_of_the_slices_that_its_bodies_got() {
    let rt = Runtime::builder().workers(2).build().expect("a runtime");
    let arena = Arena::new(&rt, "bytes");
    let floats = arena.alloc::<f32>(101).expect("memory");
    let bytes = arena.alloc::<u8>(3).expect("memory");
    let empty = arena.alloc::<u64>(0).expect("memory");
    // Ten rows of three in four shards: 3, 3, 2 and 2 rows, or whatever the cut is.
    let rows = arena.alloc_sharded::<f64>(10, 3, 4).expect("memory");

    rt.spawn("read", floats.read(), |x| assert_eq!(size_of_val(x), 404)).expect("accepted");
    for _ in 0..5 {
        let access = (floats.write(), bytes.overwrite(), empty.read());
        let body = |(x, y, z): (&mut [f32], &mut [u8], &[u64])| {
            assert_eq!(size_of_val(x) + size_of_val(y) + size_of_val(z), 407);
        };
        rt.spawn("mixed", access, body).expect("accepted");
    }
    let shards = || (0..rows.shards()).map(|i| rows.shard(i));
    for shard in shards() {
        let want = shard.len() * size_of::<f64>();
        let body = move |x: &mut [f64]| assert_eq!(size_of_val(x), want);
        rt.spawn("shard", shard.write(), body).expect("accepted");
    }
    rt.spawn("whole", rows.whole().read(), |x| assert_eq!(size_of_val(x), 240)).expect("accepted");
    let list: Vec<_> = shards().map(|shard| shard.read()).collect();
    rt.spawn("list", (list, Some(floats.read())), |_| ()).expect("accepted");
    let same = (floats.read(), floats.read());
    rt.spawn("twice", same, |_| ()).expect("accepted");
    rt.wait().expect("nothing fails");

    let kinds = rt.statistics().kinds;
    let bytes: Vec<_> = kinds.iter().map(|(name, kind)| (&**name, kind.bytes)).collect();
    let want = [
        ("list", 240 + 404),
        ("mixed", 5 * 407),
        ("read", 404),
        ("shard", 240),
        ("twice", 808),
        ("whole", 240),
    ];
    assert_eq!(bytes, want);
}
