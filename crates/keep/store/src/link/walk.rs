//! What the nodes of a tree say of who calls whom. Start at `Linker::walk`.

use super::{Call, Linker, Node, Place};
use blkkin_model::{Kind, SpanRef};

impl Linker {
    pub(super) fn walk<'a>(&mut self, spans: &[SpanRef<'a>], mut tell: impl FnMut(Call<'a>)) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.counts && node.place == Place::Known && !self.was_told(at) {
                self.tell(at, spans, &mut tell);
            }
        }
    }

    /// Whether the call that a server shows was told before, by its client alone.
    fn was_told(&mut self, at: usize) -> bool {
        let Node { kind: Kind::Server, parent: Some(parent), .. } = self.nodes[at] else {
            return false;
        };
        let client = &self.nodes[parent];
        let has_caller = |node: &Node| node.endpoint.service.is_some();
        let had_caller =
            has_caller(client) || client.ancestor.is_some_and(|at| has_caller(&self.nodes[at]));
        let was_told = client.kind == Kind::Client
            && !client.counts
            && !client.has_earlier_children
            && !client.met_again
            && client.remote.is_some()
            && had_caller;
        self.nodes[parent].met_again |= was_told;
        was_told
    }

    fn tell<'a>(&self, at: usize, spans: &[SpanRef<'a>], tell: &mut impl FnMut(Call<'a>)) {
        let node = &self.nodes[at];
        let local = node.endpoint.service(spans);
        let remote = node.remote.map_or("", |at| spans[at].remote.service);
        let kind = match node.kind {
            // The server decides.
            Kind::Client if node.has_children => return,
            Kind::Unspecified if local.is_empty() || remote.is_empty() => return,
            Kind::Unspecified => Kind::Client,
            kind => kind,
        };
        let (mut parent, child) = match kind {
            Kind::Server | Kind::Consumer => (remote, local),
            _ => (local, remote),
        };
        let mut is_error = node.is_error;
        let ancestor = node.ancestor.map(|at| &self.nodes[at]);
        let ancestor = ancestor.filter(|_| matches!(kind, Kind::Client | Kind::Server));
        if let Some(above) = ancestor.filter(|above| above.endpoint.service.is_some()) {
            let name = above.endpoint.service(spans);
            // Some clients give the name of who is called as their own.
            if kind == Kind::Client && !local.is_empty() && !name.eq_ignore_ascii_case(local) {
                let (is_error, duration_ns) = (false, None);
                tell(Call { parent: name, child: local, is_error, duration_ns, span: node.span });
            }
            if kind == Kind::Server || parent.is_empty() {
                parent = name;
            }
            is_error |=
                above.kind == Kind::Client && node.parent_id == Some(above.id) && above.is_error;
        }
        if !parent.is_empty() && !child.is_empty() {
            let duration_ns = node.duration_ns;
            tell(Call { parent, child, is_error, duration_ns, span: node.span });
        }
    }
}
