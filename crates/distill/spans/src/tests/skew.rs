//! Tests of clock skew: marked by default, and corrected with `correct_skew`.

use super::{check, check_with};
use crate::Limits;

const CORRECTED: Limits = Limits {
    correct_skew: true,
    idle_ns: 30_000_000_000,
    idle_unended_ns: 0,
    awaits_callers: true,
    bytes: 1 << 20,
    spans: 1000,
    bytes_of_request: 1 << 20,
    spans_of_request: 1000,
};

const CALL: &str = "
    4100 1/1 a:x ~10.0.0.1 @client 4000+100
    3060 1/1 b:x ~10.0.0.2 @server 3000+60
    3010 1/1 b:x ~10.0.0.2 noted
    3050 1/2<1 b:disk ~10.0.0.2 @internal 3020+30
    4099 1/3<2 c:other ~10.0.0.3 @internal 4050+9";

#[test]
fn skew_is_shown() {
    check(
        CALL,
        "
        1
          1 a:x client 4000+100 at [10.0.0.1]:0
            1 b:x server shared 3000+60 self 30 at [10.0.0.2]:0 (3010 noted) !before_parent
              2 b:disk internal 3020+30 at [10.0.0.2]:0
                3 c:other internal 4050+9 at [10.0.0.3]:0
        ",
    );
}

#[test]
fn a_server_is_moved_into_the_middle_of_its_call() {
    check_with(
        CORRECTED,
        CALL,
        "
        1
          1 a:x client 4000+100 self 40 at [10.0.0.1]:0
            1 b:x server shared 4020+60 self 30 at [10.0.0.2]:0 (4030 noted) !moved +1020
              2 b:disk internal 4040+30 self 21 at [10.0.0.2]:0 !moved +1020
                3 c:other internal 4050+9 at [10.0.0.3]:0
        ",
    );
}

#[test]
fn a_server_that_takes_longer_than_its_call_starts_after_it() {
    check_with(
        CORRECTED,
        "4100 1/1 a:x @client 4000+100
         3900 1/1 b:x @server 3000+900",
        "\n1\n  1 a:x client 4000+100 self 100\n    1 b:x server shared 5000+900 !moved +2000\n"
            .replace(" self 100", "")
            .as_str(),
    );
    // The client's span has no end, so the duration of the call is unknown.
    check_with(
        CORRECTED,
        "4100 1/1 a:x cs
         3900 1/1 b:x @server 3000+900",
        "\n1\n  1 a:x client 4100 !unfinished\n    1 b:x server shared 5100+900 !moved +2100\n",
    );
}

#[test]
fn what_is_right_stays() {
    let right = "4100 1/1 a:x @client 4000+100
                 4060 1/1 b:x @server 4000+60";
    check_with(
        CORRECTED,
        right,
        "\n1\n  1 a:x client 4000+100 self 40\n    1 b:x server shared 4000+60\n",
    );
    // One host has one clock, and only a call gives evidence of skew.
    let same_host = "4100 1/1 a:x ~10.0.0.1 @client 4000+100
                     3060 1/1 b:x ~10.0.0.1 @server 3000+60";
    check_with(
        CORRECTED,
        same_host,
        "
        1
          1 a:x client 4000+100 at [10.0.0.1]:0
            1 b:x server shared 3000+60 at [10.0.0.1]:0 !before_parent
        ",
    );
    check_with(
        CORRECTED,
        "4100 1/1 a:x @internal 4000+100
         3060 1/2<1 b:x @server 3000+60",
        "\n1\n  1 a:x internal 4000+100\n    2 b:x server 3000+60 !before_parent\n",
    );
}

#[test]
fn absurd_clocks_do_no_harm() {
    let max = i64::MAX;
    check_with(
        CORRECTED,
        &format!(
            "{max} 1/1 a:x cs
             0 1/2<1 b:x sr
             {max} 1/2<1 b:x ss"
        ),
        &format!(
            "\n1\n  1 a:x client {max} !unfinished\n    \
             2 b:x server shared {max}+{max} !moved {max:+}\n"
        ),
    );
}
