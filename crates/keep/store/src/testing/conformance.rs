//! Conformance tests of stores. A store runs them by
//! [`conformance_tests!`](crate::conformance_tests) with a function that wraps a new empty store in
//! a [`Subject`]. Each case becomes a separate test.
//!
//! The cases cover the requirements of Zipkin's own storage tests, and the further guarantees of
//! the [trait](crate::SpanStore). The last case compares answers to random queries with those of a
//! [`MemoryStore`](crate::MemoryStore); `TEST_SEED` sets its seed.

mod batches;
mod links;
mod measures;
mod pages;
mod random;
mod search;
mod summaries;
mod tested_store;
mod unusual_values;

pub use tested_store::Subject;

/// Case of the conformance tests: a function that tests one property of a store.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the case. It is the name of the function and of the generated test.
    pub name: &'static str,
    /// Function of the case. The store must be empty; the function panics on failure.
    pub run: fn(&Subject),
}

macro_rules! cases {
    ($dollar:tt $($module:ident::$name:ident,)*) => {
        /// All cases of the conformance tests.
        pub const CASES: &[Case] =
            &[$(Case { name: stringify!($name), run: $module::$name },)*];

        /// Defines one test function per conformance case. The argument is a function that creates
        /// a [`Subject`]($crate::testing::conformance::Subject) with an empty store.
        #[macro_export]
        macro_rules! conformance_tests {
            ($dollar make:expr) => {
                $(
                    #[test]
                    fn $name() {
                        $crate::testing::conformance::run(stringify!($name), $dollar make);
                    }
                )*
            };
        }
    };
}

cases! { $
    search::an_empty_store_answers,
    search::requests_without_times_are_kept_but_not_found,
    search::spans_of_a_request_are_put_together,
    search::upper_halves_of_ids_count,
    search::the_newest_come_first,
    search::services_constrain_what_is_asked,
    search::one_span_must_meet_a_condition_whole,
    search::case_of_names_does_not_matter,
    search::annotations_and_tags_are_found,
    search::durations_are_found,
    search::parts_may_be_late,
    search::both_ends_of_a_window_are_in_it,
    search::filters_are_found,
    search::events_and_links_are_found,
    pages::the_slowest_come_first,
    pages::requests_are_in_order_that_come_in_parts,
    pages::pages_neither_repeat_nor_lose,
    pages::pages_hold_while_requests_come,
    summaries::names_are_listed,
    summaries::tags_are_listed,
    summaries::summaries_tell_who_took_part,
    summaries::latency_is_measured,
    measures::cells_have_the_spans_of_their_time_and_duration,
    measures::words_inside_of_a_box_are_told_from_others,
    measures::own_times_inside_of_a_box_are_told_from_others,
    measures::spans_are_handed_over_one_by_one,
    measures::it_is_known_when_spans_started,
    links::calls_are_counted,
    links::calls_are_in_the_window_of_their_request,
    links::calls_are_counted_once,
    links::ids_that_are_cut_are_linked,
    batches::spans_that_come_twice_are_kept_once,
    batches::bad_spans_are_refused,
    batches::empty_batches_are_good,
    batches::all_formats_are_taken,
    batches::threads_do_not_disturb_each_other,
    unusual_values::odd_times_are_kept,
    unusual_values::odd_texts_are_kept,
    unusual_values::typed_tags_are_kept,
    unusual_values::flags_are_kept,
    random::answers_are_those_of_the_plain_store,
}

// Declared here because the module uses the macro above.
#[cfg(test)]
mod tests;

/// Runs the case `name` on a store that `make` creates; panics on failure.
pub fn run(name: &str, make: impl FnOnce() -> Subject) {
    match CASES.iter().find(|case| case.name == name) {
        Some(case) => (case.run)(&make()),
        None => panic!("no case {name}"),
    }
}
