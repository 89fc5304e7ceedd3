//! Tree of a request's spans, built also if their parent ids are wrong. Start at [`Tree::of`].
//!
//! Apart from sorting and the search for ids, the time is linear in the number of spans: the search
//! for cycles visits each row at most twice.

use super::rows::Row;
use std::cmp::Reverse;
use std::ops::Range;

/// Entry in the list of parents for a row without a parent id.
const NONE: u32 = u32::MAX;
/// Entry in the list of parents for a row whose parent is missing.
const MISSING: u32 = u32::MAX - 1;

/// Maximum number of spans with the parent's id that are examined for each side of a call, to find
/// the parent of a row.
const SAME_ID_MAX: usize = 8;

/// Parent of a row in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// No parent id: the span is a root.
    None,
    /// The parent is missing, or the row is the first of a cycle of parents.
    Missing,
    Row(u32),
}

/// Rows with their parents and children.
pub(super) struct Tree<'r> {
    rows: &'r [Row],
    parents: Vec<u32>,
    /// All rows. Children of the same row are adjacent and in order of start. Rows without a parent
    /// in the tree are last.
    children: Vec<u32>,
    /// Index in `children` after the last child of each row. The children of the next row begin at
    /// this index.
    ends: Vec<u32>,
    /// Index in `children` of the first row without a parent in the tree.
    top: usize,
}

/// Returns the sort key of a row among its siblings: by start, rows without a start last.
fn order(rows: &[Row], row: u32) -> impl Ord + use<> {
    let of = &rows[row as usize];
    (of.start_ns.is_none(), of.start_ns, of.is_callee, of.id, row)
}

impl<'r> Tree<'r> {
    pub(super) fn of(rows: &'r [Row]) -> Tree<'r> {
        let mut parents = Ids::of(rows).parents();
        break_cycles(rows, &mut parents);
        let mut sorted: Vec<u32> = (0..rows.len() as u32).collect();
        sorted.sort_unstable_by_key(|&row| (parents[row as usize] == MISSING, order(rows, row)));
        let mut ends = vec![0u32; rows.len()];
        for &parent in parents.iter().filter(|parent| **parent < MISSING) {
            ends[parent as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // Turns each count of children into the index of the first child. Filling `children`
            // then turns the index into the end.
            sum += std::mem::replace(end, sum);
        }
        let top = sum as usize;
        let mut children = vec![0; rows.len()];
        let mut next = top;
        for row in sorted {
            match ends.get_mut(parents[row as usize] as usize) {
                Some(end) => {
                    children[*end as usize] = row;
                    *end += 1;
                }
                None => {
                    children[next] = row;
                    next += 1;
                }
            }
        }
        Tree { rows, parents, children, ends, top }
    }

    pub(super) fn parent(&self, row: u32) -> Parent {
        match self.parents[row as usize] {
            NONE => Parent::None,
            MISSING => Parent::Missing,
            parent => Parent::Row(parent),
        }
    }

    fn children_of(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.children[start as usize..self.ends[row] as usize]
    }

    /// Returns at most `limit` rows, parents before children. If there are more rows, the deepest
    /// levels are omitted first, and within a level the rows that start last.
    pub(super) fn walk(&self, limit: usize) -> Vec<u32> {
        let is_shown = self.shown(limit);
        let mut walk = Vec::with_capacity(limit.min(self.rows.len()));
        let mut stack: Vec<u32> = self.children[self.top..].iter().rev().copied().collect();
        while let Some(row) = stack.pop() {
            // Descendants of an omitted row are omitted, too.
            if is_shown[row as usize] {
                walk.push(row);
                stack.extend(self.children_of(row).iter().rev());
            }
        }
        walk
    }

    fn shown(&self, limit: usize) -> Vec<bool> {
        let mut is_shown = vec![false; self.rows.len()];
        let mut left = limit;
        let mut level = self.children[self.top..].to_vec();
        while !level.is_empty() && left > 0 {
            if level.len() > left {
                level.select_nth_unstable_by_key(left, |&row| order(self.rows, row));
                level.truncate(left);
            }
            left -= level.len();
            level.iter().for_each(|&row| is_shown[row as usize] = true);
            level = level.iter().flat_map(|&row| self.children_of(row)).copied().collect();
        }
        is_shown
    }
}

/// Rows sorted by id; among rows with the same id, the caller's side of a call is first.
struct Ids<'r> {
    rows: &'r [Row],
    sorted: Vec<u32>,
}

impl<'r> Ids<'r> {
    fn of(rows: &'r [Row]) -> Ids<'r> {
        let mut sorted: Vec<u32> = (0..rows.len() as u32).collect();
        sorted.sort_unstable_by_key(|&row| {
            let of = &rows[row as usize];
            (of.id, of.is_callee, of.start_ns.is_none(), of.start_ns, Reverse(of.duration_ns), row)
        });
        Ids { rows, sorted }
    }

    fn row(&self, row: u32) -> &'r Row {
        &self.rows[row as usize]
    }

    /// Returns the entry for the parent of each row. The result may have cycles.
    fn parents(&self) -> Vec<u32> {
        let mut parents = vec![NONE; self.rows.len()];
        for alike in self.sorted.chunk_by(|one, other| self.row(*one).id == self.row(*other).id) {
            // The two sides of a call share an id; the callee's side is a child of the caller's
            // side.
            let upper = alike[0];
            for &row in alike {
                let of = self.row(row);
                parents[row as usize] = if of.is_callee && !self.row(upper).is_callee {
                    upper
                } else if of.parent == 0 {
                    NONE
                } else {
                    self.parent(row, of)
                };
            }
        }
        parents
    }

    /// Returns the parent of a row; `MISSING` if no other row has the parent's id. Among several
    /// rows with this id, a span of the row's own service is preferred, then the callee's side.
    fn parent(&self, row: u32, of: &Row) -> u32 {
        let alike = &self.sorted[self.range(of.parent)];
        let lower = alike.partition_point(|&it| !self.row(it).is_callee);
        let (upper, lower) = alike.split_at(lower);
        let some = lower.iter().take(SAME_ID_MAX).chain(upper.iter().take(SAME_ID_MAX));
        let mut some = some.copied().filter(|it| *it != row);
        let first = some.clone().next();
        some.find(|it| self.row(*it).service == of.service).or(first).unwrap_or(MISSING)
    }

    fn range(&self, id: u64) -> Range<usize> {
        let first = self.sorted.partition_point(|&it| self.row(it).id < id);
        let count = self.sorted[first..].partition_point(|&it| self.row(it).id == id);
        first..first + count
    }
}

/// Breaks each cycle of parents: the first row of a cycle, by [`order`], becomes a row whose parent
/// is missing.
fn break_cycles(rows: &[Row], parents: &mut [u32]) {
    // For each row, the number of the upward walk that first visited it; 0 if not visited.
    let mut met = vec![0u32; rows.len()];
    for (start, walk) in (0..rows.len() as u32).zip(1..) {
        let mut row = start;
        while met[row as usize] == 0 {
            met[row as usize] = walk;
            let parent = parents[row as usize];
            if parent >= MISSING {
                break;
            }
            if met[parent as usize] == walk {
                break_cycle(rows, parents, parent);
                break;
            }
            row = parent;
        }
    }
}

/// Breaks the cycle of parents that contains `member`, at the cycle's first row.
fn break_cycle(rows: &[Row], parents: &mut [u32], member: u32) {
    let mut first = member;
    let mut row = parents[member as usize];
    while row != member {
        if order(rows, row) < order(rows, first) {
            first = row;
        }
        row = parents[row as usize];
    }
    parents[first as usize] = MISSING;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the walk over rows, written as `index<parent`, `index<?` for a missing parent, or
    /// `index` for a root. Rows are given as `id parent start service`; an `s` after the id marks
    /// the callee's side of a call.
    #[track_caller]
    fn check(rows: &[&str], limit: usize, expected: &str) {
        let rows: Vec<Row> = rows.iter().map(|row| self::row(row)).collect();
        let tree = Tree::of(&rows);
        let walk = tree.walk(limit);
        let told = walk.iter().map(|&row| match tree.parent(row) {
            Parent::None => format!("{row}"),
            Parent::Missing => format!("{row}<?"),
            Parent::Row(parent) => format!("{row}<{parent}"),
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
        for (at, &row) in walk.iter().enumerate() {
            if let Parent::Row(parent) = tree.parent(row) {
                assert!(walk[..at].contains(&parent), "{row} is not below its parent");
            }
        }
    }

    fn row(text: &str) -> Row {
        let words: Vec<&str> = text.split(' ').collect();
        let [id, parent, start, service] = words[..] else { panic!("four words: {text}") };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        Row {
            id: number(id.trim_end_matches('s')),
            parent: number(parent),
            start_ns: start.parse().ok(),
            duration_ns: None,
            service: number(service) as u32,
            name: 0,
            kind: 0,
            is_error: false,
            is_callee: id.ends_with('s'),
        }
    }

    #[test]
    fn parents_come_before_children_in_order_of_start() {
        check(&[], 9, "");
        check(&["1 0 5 0"], 9, "0");
        check(&["3 1 7 0", "2 1 6 0", "1 0 5 0", "4 2 1 0"], 9, "2 1<2 3<1 0<2");
        // Rows without a start are last.
        check(&["1 0 5 0", "2 1 - 0", "3 1 9 0"], 9, "0 2<0 1<0");
        // Rows whose parent is missing follow the roots.
        check(&["2 9 1 0", "1 0 5 0", "3 0 4 0"], 9, "2 1 0<?");
    }

    #[test]
    fn halves_of_calls_are_below_each_other() {
        check(&["1 0 0 0", "2s 1 2 1", "2 1 1 0"], 9, "0 2<0 1<2");
        // Without the caller's side, the callee's side is a child of its parent span.
        check(&["1 0 0 0", "2s 1 2 1"], 9, "0 1<0");
        // A child belongs to the side of its own service, else to the callee's side.
        let call = ["1 0 0 0", "2 1 1 0", "2s 1 2 1"];
        let check_child = |child: &str, expected: &str| {
            check(&[call[0], call[1], call[2], child], 9, expected);
        };
        check_child("3 2 3 1", "0 1<0 2<1 3<2");
        check_child("3 2 3 0", "0 1<0 2<1 3<1");
        check_child("3 2 3 7", "0 1<0 2<1 3<2");
        // Parts of a span that arrived separately are siblings.
        check(&["1 0 0 0", "2 1 1 0", "2 1 2 0"], 9, "0 1<0 2<0");
    }

    #[test]
    fn circles_are_broken() {
        check(&["1 1 5 0"], 9, "0<?");
        check(&["1 2 5 0", "2 1 4 0"], 9, "1<? 0<1");
        check(&["1 3 5 0", "2 1 6 0", "3 2 7 0", "4 3 1 0"], 9, "0<? 1<0 2<1 3<2");
        // A cycle in which the callee's side has a descendant as its parent.
        check(&["1 2 5 0", "2 1 6 0", "2s 1 7 0"], 9, "0<? 1<0 2<1");
        check(&["1 0 5 0", "2 2 6 0", "2s 2 7 0"], 9, "0 1<? 2<1");
    }

    #[test]
    fn what_is_deepest_and_latest_is_cut() {
        let rows = ["1 0 0 0", "2 1 1 0", "3 1 2 0", "4 2 3 0", "5 3 4 0", "6 2 5 0"];
        check(&rows, 6, "0 1<0 3<1 5<1 2<0 4<2");
        check(&rows, 5, "0 1<0 3<1 2<0 4<2");
        check(&rows, 4, "0 1<0 3<1 2<0");
        check(&rows, 2, "0 1<0");
        check(&rows, 1, "0");
    }

    /// Building and walking the tree of 131072 spans takes less than 20 s for a chain, siblings,
    /// equal ids, and a cycle of all spans.
    #[test]
    fn large_ones_take_no_longer_than_others() {
        let large = |make: &dyn Fn(u64) -> (u64, u64)| {
            let rows: Vec<Row> = (0..1 << 17)
                .map(|at| {
                    let (id, parent) = make(at);
                    Row { id, parent, start_ns: Some(at), ..row("1 0 0 0") }
                })
                .collect();
            let began = std::time::Instant::now();
            let walk = Tree::of(&rows).walk(1000);
            assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
            assert_eq!(walk.len(), 1000);
        };
        large(&|at| (at + 1, at));
        large(&|at| (at + 1, 1));
        large(&|at| ((1 << 17) - at, at % 7));
        large(&|_| (5, 5));
        large(&|at| (at + 1, (at + 1) % (1 << 17) + 1));
    }
}
