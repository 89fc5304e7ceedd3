//! Tests that the conformance cases detect faults. The [`MemoryStore`] passes all cases. A store
//! with a planted fault fails the case that covers this fault.

use super::{CASES, Subject};
use crate::{
    AcceptCallback, Area, Batch, Condition, Counters, Difference, Error, Heat, Latency, Link,
    MemoryStore, Page, Policy, Query, SpanStore, TagField, Window,
};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use blkkin_wire::Format;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

conformance_tests!(|| Subject::new(MemoryStore::default()));

/// Fault planted in a store, named after the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    DropsASpanOfLargeBatches,
    KeepsWhatIsSentAgain,
    ForgetsOlderSpansInTraces,
    IgnoresPolicyWhole,
    IgnoresPolicyEachSpan,
    CountsNothingRefused,
    CountsDuplicatesTwice,
    IgnoresTheStartOfWindows,
    IgnoresTheEndOfWindows,
    LeavesTheEndOutOfWindows,
    IgnoresConditions,
    LooksAtTheFirstConditionOnly,
    WantsAllSpansToMeetAll,
    SortsTheOldestFirst,
    SortsAlikeByIdBackwards,
    AlwaysSortsByTime,
    RepeatsTheLastOfAPage,
    LosesTheFirstOfAPage,
    SaysThereIsMore,
    NeverSaysThereIsMore,
    GivesOneMore,
    CutsIds,
    KeepsUpperHalvesApart,
    CaseOfServicesMatters,
    NamesAreNotOfTheService,
    ListsTwentyNames,
    ListsServicesBackwards,
    ListsNobody,
    ListsTooManyValues,
    ListsNoKeys,
    CountsNoErrorsOfCalls,
    CountsCallsTwice,
    IgnoresTheWindowOfCalls,
    TurnsCallsAround,
    ForgetsHowLongCallsTook,
    MeasuresAllTimes,
    MeasuresAllSpans,
    GivesNoExamples,
    CountsAllSpansInCells,
    CountsCellsTwice,
    LeavesOutTheBox,
    MistakesUnknownOwnTimes,
    ComparesAllSpans,
    ComparesAllTimes,
    HandsOverAllIds,
    HandsOverNoWideIds,
    KnowsStartsOfRequestsOnly,
    SummariesHaveNoErrors,
    SummariesSortServicesByName,
    TracesAreNotInOrder,
}

struct FaultyStore {
    inner: MemoryStore,
    fault: Fault,
    /// Spans of all batches without invalid spans, duplicates included. Only
    /// [`Fault::KeepsWhatIsSentAgain`] fills the list.
    taken: Mutex<Vec<Span>>,
}

impl FaultyStore {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Returns the window that the faulty store searches instead of `window`.
    fn window(&self, window: Window) -> Window {
        match self.fault {
            Fault::IgnoresTheStartOfWindows => Window { start_ns: 0, ..window },
            Fault::IgnoresTheEndOfWindows => Window { end_ns: u64::MAX, ..window },
            Fault::LeavesTheEndOutOfWindows => {
                Window { end_ns: window.end_ns.saturating_sub(1), ..window }
            }
            _ => window,
        }
    }
}

impl SpanStore for FaultyStore {
    fn accept(&self, mut batch: Batch<'_>, done: AcceptCallback) {
        match self.fault {
            Fault::IgnoresPolicyWhole => batch.policy = Policy::EachSpan,
            Fault::IgnoresPolicyEachSpan => batch.policy = Policy::Whole,
            _ => {}
        }
        let mut spans: Vec<Span> = Vec::new();
        let outcome = blkkin_wire::Decoder::default().decode(batch.format, batch.bytes, &mut spans);
        if self.has(Fault::KeepsWhatIsSentAgain) && outcome.is_good() {
            self.taken.lock().expect("no panic").extend(spans.iter().cloned());
        }
        if self.has(Fault::DropsASpanOfLargeBatches)
            && spans.len() > 20
            && batch.format == Format::ZipkinProto
        {
            // The store claims to have accepted the span.
            spans.pop();
            let bytes = super::tested_store::encoded(batch.format, &spans);
            self.inner.accept(Batch { bytes: &bytes, ..batch }, Box::new(|_| {}));
            return done(Ok(crate::AcceptedBatch { outcome }));
        }
        self.inner.accept(batch, done);
    }

    fn each_span(
        &self,
        low: u64,
        each: &mut dyn FnMut(&SpanRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.inner.each_span(low, each)
    }

    fn trace(&self, id: TraceId) -> Result<Vec<Span>, Error> {
        if self.has(Fault::CutsIds) {
            return self.inner.traces_of_low(id.low());
        }
        if self.has(Fault::KeepsWhatIsSentAgain) {
            let taken = self.taken.lock().expect("no panic");
            let mut spans: Vec<Span> =
                taken.iter().filter(|span| span.trace_id == id).cloned().collect();
            spans.sort_by_key(|span| span.start_ns);
            return Ok(spans);
        }
        let mut spans = self.inner.trace(id)?;
        match self.fault {
            Fault::ForgetsOlderSpansInTraces if spans.len() > 2 => drop(spans.remove(0)),
            Fault::TracesAreNotInOrder => spans.reverse(),
            _ => {}
        }
        Ok(spans)
    }

    fn traces_of_low(&self, low: u64) -> Result<Vec<Span>, Error> {
        let mut spans = self.inner.traces_of_low(low)?;
        if self.has(Fault::KeepsUpperHalvesApart) {
            spans.retain(|span| !span.trace_id.is_wide());
        }
        Ok(spans)
    }

    fn visit(
        &self,
        low: u64,
        id: Option<SpanId>,
        each: &mut dyn FnMut(&SpanRef<'_>),
    ) -> Result<(), Error> {
        let id = id.filter(|_| !self.has(Fault::HandsOverAllIds));
        self.inner.visit(low, id, &mut |span| {
            if !(self.has(Fault::HandsOverNoWideIds) && span.trace_id.is_wide()) {
                each(span);
            }
        })
    }

    fn search(&self, query: &Query) -> Result<Page, Error> {
        let mut query = query.clone();
        query.window = self.window(query.window);
        match self.fault {
            Fault::IgnoresConditions => query.conditions.clear(),
            Fault::LooksAtTheFirstConditionOnly => query.conditions.truncate(1),
            Fault::WantsAllSpansToMeetAll => {
                query.conditions = vec![Condition::All(query.conditions)];
            }
            Fault::AlwaysSortsByTime => query.order = Default::default(),
            Fault::GivesOneMore => query.limit += 1,
            Fault::RepeatsTheLastOfAPage => {
                if let Some(after) = &mut query.after {
                    after.rank_ns = after.rank_ns.saturating_add(1);
                }
            }
            _ => {}
        }
        let mut page = self.inner.search(&query)?;
        match self.fault {
            Fault::SortsTheOldestFirst => page.requests.reverse(),
            Fault::SortsAlikeByIdBackwards => page
                .requests
                .sort_by_key(|it| (std::cmp::Reverse(it.start_ns), std::cmp::Reverse(it.trace_id))),
            Fault::LosesTheFirstOfAPage if query.after.is_some() => {
                page.requests.drain(..page.requests.len().min(1));
            }
            Fault::SaysThereIsMore if page.requests.len() == query.limit => {
                let last = page.requests.last();
                page.next =
                    last.map(|it| query.order.place(it.trace_id, it.start_ns, it.duration_ns));
            }
            Fault::NeverSaysThereIsMore => page.next = None,
            Fault::SummariesHaveNoErrors => page.requests.iter_mut().for_each(|it| it.errors = 0),
            Fault::SummariesSortServicesByName => {
                let services = page.requests.iter_mut().map(|it| &mut it.services);
                services.for_each(|it| it.sort_by(|one, other| one.service.cmp(&other.service)));
            }
            _ => {}
        }
        Ok(page)
    }

    fn services(&self) -> Result<Vec<String>, Error> {
        let mut services = self.inner.services()?;
        match self.fault {
            Fault::ListsServicesBackwards => services.reverse(),
            Fault::ListsNobody => services.insert(0, String::new()),
            _ => {}
        }
        Ok(services)
    }

    fn span_names(&self, service: &str) -> Result<Vec<String>, Error> {
        let knows = |services: Vec<String>| services.iter().any(|known| known == service);
        if self.has(Fault::CaseOfServicesMatters) && !knows(self.inner.services()?) {
            return Ok(Vec::new());
        }
        let mut names = self.inner.span_names(service)?;
        match self.fault {
            Fault::NamesAreNotOfTheService => {
                for other in self.inner.services()? {
                    names.extend(self.inner.span_names(&other)?);
                }
                names.sort();
                names.dedup();
            }
            Fault::ListsTwentyNames => names.truncate(20),
            _ => {}
        }
        Ok(names)
    }

    fn remote_services(&self, service: &str) -> Result<Vec<String>, Error> {
        self.inner.remote_services(service)
    }

    fn tag_keys(&self) -> Result<Vec<TagField>, Error> {
        match self.fault {
            Fault::ListsNoKeys => Ok(Vec::new()),
            _ => self.inner.tag_keys(),
        }
    }

    fn tag_values(&self, key: &str, limit: usize) -> Result<Vec<String>, Error> {
        let limit = if self.has(Fault::ListsTooManyValues) { usize::MAX } else { limit };
        self.inner.tag_values(key, limit)
    }

    fn links(&self, window: Window) -> Result<Vec<Link>, Error> {
        let all = self.has(Fault::IgnoresTheWindowOfCalls);
        let mut links = self.inner.links(if all { Window::ALL } else { window })?;
        for link in &mut links {
            match self.fault {
                Fault::CountsNoErrorsOfCalls => link.errors = 0,
                Fault::CountsCallsTwice => link.calls *= 2,
                Fault::TurnsCallsAround => std::mem::swap(&mut link.parent, &mut link.child),
                Fault::ForgetsHowLongCallsTook => link.durations = Default::default(),
                _ => {}
            }
        }
        links.sort_by(|one, other| (&one.parent, &one.child).cmp(&(&other.parent, &other.child)));
        Ok(links)
    }

    fn latency(&self, window: Window, condition: &Condition) -> Result<Latency, Error> {
        let all = Condition::All(Vec::new());
        let window = if self.has(Fault::MeasuresAllTimes) { Window::ALL } else { window };
        let condition = if self.has(Fault::MeasuresAllSpans) { &all } else { condition };
        let mut latency = self.inner.latency(window, condition)?;
        if self.has(Fault::GivesNoExamples) {
            latency.examples.clear();
        }
        Ok(latency)
    }

    fn starts(&self) -> Result<Option<Window>, Error> {
        if self.has(Fault::KnowsStartsOfRequestsOnly) {
            let page = self.inner.search(&Query::new(usize::MAX))?;
            let starts = || page.requests.iter().map(|summary| summary.start_ns);
            let window = |(start_ns, end_ns)| Window { start_ns, end_ns };
            return Ok(starts().min().zip(starts().max()).map(window));
        }
        self.inner.starts()
    }

    fn heat(&self, condition: &Condition, cells: &mut Heat) -> Result<(), Error> {
        let all = Condition::All(Vec::new());
        let condition = if self.has(Fault::CountsAllSpansInCells) { &all } else { condition };
        self.inner.heat(condition, cells)?;
        if self.has(Fault::CountsCellsTwice) { self.inner.heat(condition, cells) } else { Ok(()) }
    }

    fn difference(
        &self,
        window: Window,
        condition: &Condition,
        area: &Area,
    ) -> Result<Difference, Error> {
        let all = Condition::All(Vec::new());
        let condition = if self.has(Fault::ComparesAllSpans) { &all } else { condition };
        let window = if self.has(Fault::ComparesAllTimes) { Window::ALL } else { window };
        let mut difference = self.inner.difference(window, condition, area)?;
        if self.has(Fault::LeavesOutTheBox) {
            difference.values.retain(|word| word.outside > 0);
        }
        if self.has(Fault::MistakesUnknownOwnTimes) {
            difference.own_time.inside += difference.own_time.unknown_inside;
        }
        Ok(difference)
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.inner.counters();
        match self.fault {
            Fault::CountsNothingRefused => counters.refused = 0,
            Fault::CountsDuplicatesTwice => counters.duplicates *= 2,
            _ => {}
        }
        counters
    }
}

/// Returns whether a store with the given fault passes a case.
fn passes(fault: Fault, name: &str) -> bool {
    let inner = MemoryStore::default();
    let broken = FaultyStore { inner, fault, taken: Mutex::default() };
    catch_unwind(AssertUnwindSafe(|| super::run(name, || Subject::new(broken)))).is_ok()
}

#[test]
fn planted_faults_are_found() {
    // Without a fault, the wrapper passes all cases.
    for case in CASES {
        assert!(passes(Fault::Nothing, case.name), "{}", case.name);
    }
    let check = |fault: Fault, name: &str| {
        assert!(CASES.iter().any(|case| case.name == name), "{name}");
        assert!(!passes(fault, name), "{fault:?} is not found by {name}");
    };
    check(Fault::DropsASpanOfLargeBatches, "answers_are_those_of_the_plain_store");
    check(Fault::KeepsWhatIsSentAgain, "spans_that_come_twice_are_kept_once");
    check(Fault::ForgetsOlderSpansInTraces, "spans_of_a_request_are_put_together");
    check(Fault::IgnoresPolicyWhole, "bad_spans_are_refused");
    check(Fault::IgnoresPolicyEachSpan, "bad_spans_are_refused");
    check(Fault::CountsNothingRefused, "bad_spans_are_refused");
    check(Fault::CountsDuplicatesTwice, "spans_that_come_twice_are_kept_once");
    check(Fault::IgnoresTheStartOfWindows, "both_ends_of_a_window_are_in_it");
    check(Fault::IgnoresTheEndOfWindows, "both_ends_of_a_window_are_in_it");
    check(Fault::LeavesTheEndOutOfWindows, "both_ends_of_a_window_are_in_it");
    check(Fault::IgnoresConditions, "filters_are_found");
    check(Fault::LooksAtTheFirstConditionOnly, "spans_of_a_request_are_put_together");
    check(Fault::WantsAllSpansToMeetAll, "one_span_must_meet_a_condition_whole");
    check(Fault::SortsTheOldestFirst, "the_newest_come_first");
    check(Fault::SortsAlikeByIdBackwards, "the_newest_come_first");
    check(Fault::AlwaysSortsByTime, "the_slowest_come_first");
    check(Fault::RepeatsTheLastOfAPage, "pages_neither_repeat_nor_lose");
    check(Fault::LosesTheFirstOfAPage, "pages_neither_repeat_nor_lose");
    check(Fault::SaysThereIsMore, "pages_neither_repeat_nor_lose");
    check(Fault::NeverSaysThereIsMore, "pages_hold_while_requests_come");
    check(Fault::GivesOneMore, "the_newest_come_first");
    check(Fault::CutsIds, "upper_halves_of_ids_count");
    check(Fault::KeepsUpperHalvesApart, "upper_halves_of_ids_count");
    check(Fault::CaseOfServicesMatters, "case_of_names_does_not_matter");
    check(Fault::NamesAreNotOfTheService, "names_are_listed");
    check(Fault::ListsTwentyNames, "names_are_listed");
    check(Fault::ListsServicesBackwards, "names_are_listed");
    check(Fault::ListsNobody, "an_empty_store_answers");
    check(Fault::ListsTooManyValues, "tags_are_listed");
    check(Fault::ListsNoKeys, "tags_are_listed");
    check(Fault::CountsNoErrorsOfCalls, "calls_are_counted");
    check(Fault::CountsCallsTwice, "calls_are_counted");
    check(Fault::IgnoresTheWindowOfCalls, "calls_are_in_the_window_of_their_request");
    check(Fault::TurnsCallsAround, "calls_are_counted");
    check(Fault::ForgetsHowLongCallsTook, "calls_are_counted");
    check(Fault::MeasuresAllTimes, "latency_is_measured");
    check(Fault::MeasuresAllSpans, "latency_is_measured");
    check(Fault::GivesNoExamples, "latency_is_measured");
    let cells = "cells_have_the_spans_of_their_time_and_duration";
    check(Fault::CountsAllSpansInCells, cells);
    check(Fault::CountsCellsTwice, cells);
    let words = "words_inside_of_a_box_are_told_from_others";
    check(Fault::LeavesOutTheBox, words);
    check(Fault::MistakesUnknownOwnTimes, "own_times_inside_of_a_box_are_told_from_others");
    check(Fault::ComparesAllSpans, words);
    check(Fault::ComparesAllTimes, words);
    check(Fault::HandsOverAllIds, "spans_are_handed_over_one_by_one");
    check(Fault::HandsOverNoWideIds, "spans_are_handed_over_one_by_one");
    check(Fault::KnowsStartsOfRequestsOnly, "it_is_known_when_spans_started");
    check(Fault::SummariesHaveNoErrors, "summaries_tell_who_took_part");
    check(Fault::SummariesSortServicesByName, "summaries_tell_who_took_part");
    check(Fault::TracesAreNotInOrder, "spans_of_a_request_are_put_together");
}
