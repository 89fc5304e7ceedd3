//! Trees of spans, also with missing parents and cycles.

use super::check;

#[test]
fn children_are_in_order_of_time() {
    check(
        "50 1/1 a:root @server 0+50
         40 1/4<1 a:second @internal 30+10
         20 1/2<1 a:first @internal 10+10
         19 1/3<2 a:inner @internal 11+2",
        "
        1
          1 a:root server 0+50 self 30
            2 a:first internal 10+10 self 8
              3 a:inner internal 11+2
            4 a:second internal 30+10
        ",
    );
}

#[test]
fn self_time_counts_what_overlaps_once() {
    check(
        "50 1/1 a:root @server 0+50
         30 1/2<1 a:one @internal 10+20
         25 1/3<1 a:within @internal 12+5
         40 1/4<1 a:across @internal 20+20
         90 1/5<1 a:beyond @internal 45+45",
        "
        1
          1 a:root server 0+50 self 15
            2 a:one internal 10+20
            3 a:within internal 12+5
            4 a:across internal 20+20
            5 a:beyond internal 45+45
        ",
    );
}

#[test]
fn parents_may_be_missing() {
    check(
        "20 1/2<9 a:x @internal 10+10
         19 1/3<2 a:y @internal 11+2",
        "\n1\n  2 a:x internal 10+10 self 8 !missing_parent\n    3 a:y internal 11+2\n",
    );
}

#[test]
fn times_need_not_be_known() {
    check("0 1/1 a:x undated", "\n1\n  1 a:x server\n");
    check(
        "10 1/1 a:x @client 10+5
         10 1/2<1 b:y undated
         10 1/2<1 b:y k=v
         10 1/2<1 b:y @client 11+1",
        "
        1
          1 a:x client 10+5 self 4
            2 b:y client 11+1 k=v
              2 b:y server shared
        ",
    );
}

#[test]
fn there_may_be_many_roots() {
    check(
        "20 1/2 a:x @internal 10+10
         19 1/3 a:y @internal 11+2
         18 1/4<7 a:z @internal 5+1",
        "
        1
          4 a:z internal 5+1 !missing_parent
          2 a:x internal 10+10
          3 a:y internal 11+2 !other_root
        ",
    );
}

#[test]
fn circles_are_cut_where_they_begin() {
    check("20 1/2<2 a:x @internal 10+10", "\n1\n  2 a:x internal 10+10 !cycle\n");
    check(
        "20 1/2<3 a:x @internal 11+9
         30 1/3<4 a:y @internal 10+20
         25 1/4<2 a:z @internal 12+3
         24 1/5<4 a:off @internal 13+1",
        "
        1
          3 a:y internal 10+20 self 11
            2 a:x internal 11+9 self 6
              4 a:z internal 12+3 self 2
                5 a:off internal 13+1
        "
        .replace("20 self 11\n", "20 self 11 !cycle\n")
        .as_str(),
    );
}

#[test]
fn the_first_reported_parent_counts() {
    check(
        "10 1/1 a:x @internal 0+9
         11 1/2 a:y @internal 0+9
         12 1/3<1 a:z e
         13 1/3<2 a:z f",
        "
        1
          1 a:x internal 0+9
            3 a:z 12+1 (12 e) (13 f) !other_parent
          2 a:y internal 0+9 !other_root
        ",
    );
}

#[test]
fn causes_are_looked_for_at_ones_own_service_first() {
    check(
        "40 1/1 a:x @client 10+30
         30 1/1 b:x @server 15+10
         20 1/2<1 b:inner @internal 16+4
         35 1/3<1 a:inner @internal 34+1",
        "
        1
          1 a:x client 10+30 self 19
            1 b:x server shared 15+10 self 6
              2 b:inner internal 16+4
            3 a:inner internal 34+1
        ",
    );
}

#[test]
fn what_is_there_twice_counts_once() {
    check(
        "10 1/1 a:x e
         10 1/1 a:x e
         10 1/1 a:x e
         10 1/1 a:x f
         10 1/1 b:x e",
        "\n1 duplicate:2\n  1 a:x 10 (10 e) (10 f)\n  1 b:x 10 (10 e)\n",
    );
}
