//! Step 2 of linking: arranges nodes in a tree. Start at `Linker::build_tree`.

use super::nodes::{Linker, Node, SearchState};
use blkkin_model::SpanRef;

impl Linker {
    pub(super) fn build_tree(&mut self, spans: &[SpanRef<'_>]) {
        self.index(spans);
        // Nodes without a parent, or with an unknown parent, become children of the first root.
        let root = self.nodes.iter().position(|node| !node.shared && node.parent_id.is_none());
        for at in 0..self.nodes.len() {
            let parent = self.parent_of(at, spans).or(root).filter(|_| Some(at) != root);
            self.nodes[at].parent = parent;
            if let Some(parent) = parent {
                let counts = self.nodes[at].is_new;
                let parent = &mut self.nodes[parent];
                parent.has_children = true;
                parent.has_earlier_children |= !counts;
            }
        }
        for at in 0..self.nodes.len() {
            self.find_ancestor(at);
        }
    }

    /// Builds the indexes by which nodes are found by span id: `shared`, and `unshared` in nodes.
    fn index(&mut self, spans: &[SpanRef<'_>]) {
        let Linker { nodes, shared, .. } = self;
        shared.clear();
        let mut first = 0;
        for at in 0..nodes.len() {
            if nodes[at].id != nodes[first].id {
                first = at;
            }
            let node = &nodes[at];
            match node.shared {
                true => shared.push((node.id, node.endpoint.hash_value(spans), at)),
                false => nodes[first].unshared = Some(at),
            }
        }
        shared.sort_unstable();
    }

    /// Returns the index of the node's parent; `None` if there is no such node. The parent of a
    /// shared node is the last unshared node with the same id, usually the client's. For other
    /// nodes, a shared node with the parent's id and the same endpoint is preferred to an unshared
    /// node with the parent's id.
    fn parent_of(&self, at: usize, spans: &[SpanRef<'_>]) -> Option<usize> {
        let node = &self.nodes[at];
        if node.shared {
            return self.unshared(node.id);
        }
        let id = node.parent_id?;
        self.shared_by(id, node, spans).or_else(|| self.unshared(id))
    }

    fn unshared(&self, id: u64) -> Option<usize> {
        let first = self.nodes.partition_point(|node| node.id < id);
        self.nodes.get(first).filter(|node| node.id == id)?.unshared
    }

    /// Returns the index of the last shared node with this id and the endpoint of `of`.
    fn shared_by(&self, id: u64, of: &Node, spans: &[SpanRef<'_>]) -> Option<usize> {
        let from = self.shared.partition_point(|entry| entry.0 < id);
        let rest = &self.shared[from..];
        if rest.first().is_none_or(|entry| entry.0 != id) {
            return None;
        }
        let number = of.endpoint.hash_value(spans);
        let from = rest.partition_point(|entry| (entry.0, entry.1) < (id, number));
        let alike = rest[from..].iter().take_while(|entry| (entry.0, entry.1) == (id, number));
        alike
            .last()
            .map(|entry| entry.2)
            .filter(|&at| self.nodes[at].endpoint.is(&of.endpoint, spans))
    }

    /// Sets `ancestor` and `position` of a node and of the nodes above it. Stops at the root, at a
    /// node with a known position, or at a cycle.
    fn find_ancestor(&mut self, mut at: usize) {
        self.path.clear();
        let (mut ancestor, position) = loop {
            match self.nodes[at].position {
                SearchState::Unknown => {}
                SearchState::Visiting => break (None, SearchState::Cyclic),
                known => {
                    let node = &self.nodes[at];
                    break (if node.is_call() { Some(at) } else { node.ancestor }, known);
                }
            }
            self.nodes[at].position = SearchState::Visiting;
            self.path.push(at);
            match self.nodes[at].parent {
                Some(parent) => at = parent,
                None => break (None, SearchState::Rooted),
            }
        };
        while let Some(at) = self.path.pop() {
            let node = &mut self.nodes[at];
            node.ancestor = ancestor;
            node.position = position;
            if node.is_call() {
                ancestor = Some(at);
            }
        }
    }
}
