//! Resolution of each span's parent. Parent ids in events are untrusted: the parent may be missing,
//! and parent ids may form cycles.

use crate::join::Draft;
use crate::request::{Oddity, bit};
use crate::resolver::Resolver;
use blkkin_model::Kind;

/// Resolves the parent of each draft, as an index into `drafts`. The result has no cycles.
pub(crate) fn resolve(
    drafts: &[Draft],
    resolver: Resolver<'_>,
    odd: &mut [u32],
) -> Vec<Option<usize>> {
    // Drafts of one id are adjacent, callers before callees.
    let mut by_id: Vec<(u64, bool, u32)> =
        (0..).zip(drafts).map(|(at, draft)| (draft.id, draft.shared, at)).collect();
    by_id.sort_unstable();
    let with_id = |id: u64| {
        let from = by_id.partition_point(|entry| entry.0 < id);
        let size = by_id[from..].iter().take_while(|entry| entry.0 == id).count();
        by_id[from..from + size].iter().map(|entry| entry.2 as usize)
    };
    let is_caller = |at: &usize| matches!(drafts[*at].kind, Kind::Client | Kind::Producer);
    let mut mark = |at: usize, oddity: Oddity| odd[at] |= bit(oddity);
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let caller = || with_id(draft.id).find(|other| is_caller(other) && *other != at);
        let parent = match draft.parent {
            _ if draft.shared && caller().is_some() => caller(),
            0 => None,
            parent if parent == draft.id => {
                mark(at, Oddity::Cycle);
                None
            }
            parent => {
                let is_own = |other: &usize| {
                    let other = &drafts[*other];
                    other.shared && resolver.is_same(other.service, draft.service)
                };
                let found = with_id(parent).find(is_own).or_else(|| with_id(parent).next());
                if found.is_none() {
                    mark(at, Oddity::MissingParent);
                }
                found
            }
        };
        parents.push(parent);
    }
    break_cycles(
        &mut parents,
        |at| (drafts[at].start, drafts[at].id, at),
        |at| mark(at, Oddity::Cycle),
    );
    parents
}

/// Breaks cycles: in each cycle, the node with the least key loses its parent.
fn break_cycles<K: Ord>(
    parents: &mut [Option<usize>],
    key: impl Fn(usize) -> K,
    mut mark: impl FnMut(usize),
) {
    // Number of the walk that first visited each node, from 1; 0 if unvisited.
    let mut walks = vec![0usize; parents.len()];
    for from in 0..parents.len() {
        let mut at = from;
        while walks[at] == 0 {
            walks[at] = from + 1;
            match parents[at] {
                Some(parent) => at = parent,
                None => break,
            }
        }
        if walks[at] != from + 1 || parents[at].is_none() {
            continue;
        }
        let mut least = at;
        let mut other = parents[at];
        while let Some(next) = other.filter(|next| *next != at) {
            if key(next) < key(least) {
                least = next;
            }
            other = parents[next];
        }
        parents[least] = None;
        mark(least);
    }
}

/// Child lists of a forest: nodes sorted by parent, and by key among the children of one parent.
pub(crate) struct Children {
    /// The parent's index plus one (0 for roots), and the node's index.
    sorted: Vec<(usize, usize)>,
}

impl Children {
    pub(crate) fn new<K: Ord>(parents: &[Option<usize>], key: impl Fn(usize) -> K) -> Children {
        let mut sorted: Vec<(usize, usize)> = parents
            .iter()
            .enumerate()
            .map(|(at, parent)| (parent.map_or(0, |parent| parent + 1), at))
            .collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
        Children { sorted }
    }

    fn of(&self, above: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let from = self.sorted.partition_point(|entry| entry.0 < above);
        let to = self.sorted.partition_point(|entry| entry.0 <= above);
        self.sorted[from..to].iter().map(|entry| entry.1)
    }

    /// Returns all nodes in preorder, each with its depth.
    pub(crate) fn preorder(&self) -> Vec<(usize, usize)> {
        let mut order = Vec::with_capacity(self.sorted.len());
        let mut stack: Vec<(usize, usize)> = self.of(0).rev().map(|at| (at, 0)).collect();
        while let Some((at, depth)) = stack.pop() {
            order.push((at, depth));
            stack.extend(self.of(at + 1).rev().map(|child| (child, depth + 1)));
        }
        order
    }
}
