//! From nodes to a tree, of which each node knows what is above it. Start at `Linker::plant`.

use super::{Linker, Node, Place};
use blkkin_model::{Kind, SpanRef};

impl Linker {
    pub(super) fn plant(&mut self, spans: &[SpanRef<'_>]) {
        self.index(spans);
        // Other spans that know no parent, or one that is not there, hang below the first root.
        let root = self.nodes.iter().position(|node| !node.shared && node.parent_id.is_none());
        for at in 0..self.nodes.len() {
            let parent = self.parent_of(at, spans).or(root).filter(|_| Some(at) != root);
            self.nodes[at].parent = parent;
            if let Some(parent) = parent {
                let counts = self.nodes[at].counts;
                let parent = &mut self.nodes[parent];
                parent.has_children = true;
                parent.has_earlier_children |= !counts;
            }
        }
        for at in 0..self.nodes.len() {
            self.find_ancestor(at);
        }
    }

    /// Notes by what nodes are found.
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
                true => shared.push((node.id, node.endpoint.number(spans), at)),
                false => nodes[first].plain = Some(at),
            }
        }
        shared.sort_unstable();
    }

    /// The parent as the node names it, if it is there. A server's that shares its id is the client with that id;
    /// another one's that of the same host that shares the parent's id, or else who made that id.
    fn parent_of(&self, at: usize, spans: &[SpanRef<'_>]) -> Option<usize> {
        let node = &self.nodes[at];
        if node.shared {
            return self.plain(node.id);
        }
        let id = node.parent_id?;
        self.shared_by(id, node, spans).or_else(|| self.plain(id))
    }

    fn plain(&self, id: u64) -> Option<usize> {
        let first = self.nodes.partition_point(|node| node.id < id);
        self.nodes.get(first).filter(|node| node.id == id)?.plain
    }

    /// The last node that shares an id, on the host of another node.
    fn shared_by(&self, id: u64, of: &Node, spans: &[SpanRef<'_>]) -> Option<usize> {
        let from = self.shared.partition_point(|entry| entry.0 < id);
        let rest = &self.shared[from..];
        if rest.first().is_none_or(|entry| entry.0 != id) {
            return None;
        }
        let number = of.endpoint.number(spans);
        let from = rest.partition_point(|entry| (entry.0, entry.1) < (id, number));
        let alike = rest[from..].iter().take_while(|entry| (entry.0, entry.1) == (id, number));
        alike
            .last()
            .map(|entry| entry.2)
            .filter(|&at| self.nodes[at].endpoint.is(&of.endpoint, spans))
    }

    /// Finds what is next above a node and a call or a message, and the same for all between them and the root.
    fn find_ancestor(&mut self, mut at: usize) {
        self.path.clear();
        let (mut ancestor, place) = loop {
            match self.nodes[at].place {
                Place::Unknown => {}
                Place::Sought => break (None, Place::Circle),
                known => {
                    let node = &self.nodes[at];
                    break (if node.is_call() { Some(at) } else { node.ancestor }, known);
                }
            }
            self.nodes[at].place = Place::Sought;
            self.path.push(at);
            match self.nodes[at].parent {
                Some(parent) => at = parent,
                None => break (None, Place::Known),
            }
        };
        while let Some(at) = self.path.pop() {
            let node = &mut self.nodes[at];
            node.ancestor = ancestor;
            node.place = place;
            if node.is_call() {
                ancestor = Some(at);
            }
        }
    }
}

impl Node {
    fn is_call(&self) -> bool {
        self.kind != Kind::Unspecified
    }
}
