//! Joining of the reports on one span id into spans: one for each service, and one for each side if
//! a service calls itself.

use super::check;

#[test]
fn a_span_goes_from_its_first_event_to_its_last() {
    check(
        "10 1/1 vm:io start
         15 1/1 vm:io length=#4096
         12 1/1 vm:io ~10.0.0.1/6800 object=rbd
         30 1/1 vm:io end",
        "
        1
          1 vm:io 10+20 at [10.0.0.1]:6800 (10 start) (30 end) length=#4096 object=rbd
        ",
    );
    // A single event has no duration.
    check("10 1/1 vm:io start", "\n1\n  1 vm:io 10 (10 start)\n");
    check("10 1/1 vm:io a=b", "\n1\n  1 vm:io 10 a=b\n");
}

#[test]
fn core_annotations_tell_kind_and_times() {
    check(
        "10 1/1 a:x cs\n 11 1/1 a:x noted\n 30 1/1 a:x cr\n 40 1/1 a:x later",
        "\n1\n  1 a:x client 10+20 (11 noted) (40 later)\n",
    );
    check("10 1/1 a:x sr\n 30 1/1 a:x ss", "\n1\n  1 a:x server shared 10+20\n");
    check("10 1/1 a:x ms\n 30 1/1 a:x ws", "\n1\n  1 a:x producer 10+20\n");
    check("10 1/1 a:x ms\n 30 1/1 a:x note", "\n1\n  1 a:x producer 10 (30 note)\n");
    check("10 1/1 a:x wr\n 30 1/1 a:x mr", "\n1\n  1 a:x consumer 10+20\n");
    check("10 1/1 a:x mr\n 30 1/1 a:x note", "\n1\n  1 a:x consumer 10 (30 note)\n");
    // Wire annotations alone determine no kind, and are kept as annotations.
    check("10 1/1 a:x wr\n 30 1/1 a:x ws", "\n1\n  1 a:x 10+20 (10 wr) (30 ws)\n");
    // Core annotations without a service are kept as annotations.
    check("10 1/1 :x cs\n 30 1/1 :x cr", "\n1\n  1 :x 10+20 (10 cs) (30 cr)\n");
}

#[test]
fn half_a_half_is_marked() {
    check("10 1/1 a:x cs\n 12 1/1 a:x sent", "\n1\n  1 a:x client 10 (12 sent) !unfinished\n");
    check(
        "10 1/1 a:x got\n 30 1/1 a:x cr",
        "\n1\n  1 a:x client 10 (10 got) (30 cr) !unfinished\n",
    );
    check("10 1/1 a:x ss\n 30 1/1 a:x sr", "\n1\n  1 a:x server shared 30 (10 ss) !backwards\n");
}

#[test]
fn repeated_calls_last_until_the_last_end() {
    check(
        "10 1/1 a:x cs
         20 1/1 a:x cr
         30 1/1 a:x cs
         40 1/1 a:x cr",
        "\n1\n  1 a:x client 10+30 (20 cr) (30 cs) !repeated\n",
    );
}

#[test]
fn both_sides_of_a_call_have_one_number() {
    check(
        "10 1/1 vm:io cs
         20 1/1 osd:write ~10.0.0.2/1 sr
         22 1/1 osd:write object=rbd
         25 1/2<1 osd:disk @internal 24+1
         30 1/1 osd:write ss
         40 1/1 vm:io cr",
        "
        1
          1 vm:io client 10+30 self 20
            1 osd:write server shared 20+10 self 9 at [10.0.0.2]:1 object=rbd
              2 osd:disk internal 24+1
        ",
    );
}

#[test]
fn a_service_may_call_itself() {
    check(
        "10 1/1 a:x cs
         20 1/1 a:x sr
         25 1/1 a:x work
         30 1/1 a:x ss
         40 1/1 a:x cr",
        "
        1
          1 a:x client 10+30 self 20 (25 work)
            1 a:x server shared 20+10
        ",
    );
}

#[test]
fn other_services_get_a_span_of_their_own() {
    check(
        "10 1/1 osd:write start
         20 1/1 client:write text=hello
         30 1/1 osd:write end",
        "
        1
          1 osd:write 10+20 (10 start) (30 end)
          1 client:write 20 text=hello
        ",
    );
    // A report without a service belongs to the first draft.
    check(
        "10 1/1 :write start
         20 1/1 osd: end",
        "\n1\n  1 osd:write 10+10 (10 start) (20 end)\n",
    );
}

#[test]
fn a_spans_own_event_counts_most() {
    check(
        "10 1/1 a:x cs
         12 1/1 a:x noted
         30 1/1 a:x @server 5+20",
        "\n1\n  1 a:x server 5+20 (10 cs) (12 noted)\n",
    );
    // Complete spans of both sides.
    check(
        "40 1/1 a:x @client 10+30
         30 1/1 b:x @server 15+10",
        "\n1\n  1 a:x client 10+30 self 20\n    1 b:x server shared 15+10\n",
    );
    // Two complete spans of one service and side.
    check(
        "40 1/1 a:x @internal 10+30
         30 1/1 a:x @internal 15+10",
        "\n1\n  1 a:x internal 10+30 !same_id\n  1 a:x internal 15+10\n",
    );
}

#[test]
fn addresses_tell_the_other_side() {
    check(
        "10 1/1 a:x cs\n 11 1/1 b:x ~10.0.0.2/80 sa=1\n 30 1/1 a:x cr",
        "\n1\n  1 a:x client 10+20 with b[10.0.0.2]:80\n",
    );
    check(
        "10 1/1 a:x sr\n 11 1/1 b:x ca=1\n 30 1/1 a:x ss",
        "\n1\n  1 a:x server shared 10+20 with b[]:0\n",
    );
    check("10 1/1 a:x ms\n 11 1/1 b:x ma=1", "\n1\n  1 a:x producer 10 with b[]:0\n");
    check("10 1/1 a:x hello\n 11 1/1 b:x sa=1", "\n1\n  1 a:x 10 with b[]:0 (10 hello)\n");
    check("10 1/1 a:x hello\n 11 1/1 b:x ca=1", "\n1\n  1 a:x server 10 with b[]:0 (10 hello)\n");
    check("30 1/1 a:x @client 10+20\n 11 1/1 b:x sa=1", "\n1\n  1 a:x client 10+20 with b[]:0\n");
    check("10 1/1 a:x sa=1", "\n1\n  1 :x 10 with a[]:0\n");
    check("10 1/1 a:x lc=\n 11 1/1 a:x lc=kafka", "\n1\n  1 a:x 10+1 lc=kafka\n");
}

#[test]
fn addresses_that_are_none_are_kept_as_text() {
    let check_address = |address: &str, expected: &str| {
        check(&format!("10 1/1 a:x ~{address} e"), &format!("\n1\n  1 a:x 10{expected}\n"));
    };
    check_address("10.0.0.1/80", " at [10.0.0.1]:80 (10 e)");
    check_address("::1/80", " at [::1]:80 (10 e)");
    check_address("::ffff:10.0.0.1/80", " at [10.0.0.1]:80 (10 e)");
    check_address("0.0.0.0", " (10 e)");
    check_address("NaN", " (10 e)");
    check_address("node7/1", " at []:1 (10 e) ip=node7");
    // The original library's encoding of port 50,000, and of a missing port.
    check_address("NaN/-15536", " at []:50000 (10 e)");
    check_address("NaN/-1", " (10 e)");
    check_address("NaN/70000", " (10 e) port=#70000");
}

#[test]
fn replaced_tags_become_annotations() {
    check(
        "10 1/1 a:x retry=#1
         11 1/1 a:x retry=#2
         12 1/1 a:x other=y
         13 1/1 a:x retry=#3",
        "\n1\n  1 a:x 10+3 (10 retry=1) (11 retry=2) other=y retry=#3\n",
    );
}

#[test]
fn trace_ids_may_be_wide() {
    check("5 1/0 wide 2\n 10 1/1 a:x e", "\n20000000000000001\n  1 a:x 10 (10 e)\n");
    check(
        "10 1^2/1 a:x @client 5+5\n 7 1/1 a:x e",
        "\n20000000000000001\n  1 a:x client 5+5 (7 e)\n",
    );
    // The upper half alone makes no request.
    check("5 1/0 wide 2", "\n");
    // Two requests with the same lower half.
    check(
        "10 1^2/1 a:x @client 5+5
         10 1^3/2 a:x @client 6+4
         7 1/2 a:x e
         8 1/3<1 a:x who",
        "
        20000000000000001
          1 a:x client 5+5
            3 a:x 8 (8 who) !ambiguous
        30000000000000001
          2 a:x client 6+4 (7 e)
        ",
    );
}
