//! Step 3 of linking: derives calls from the tree. Start at `Linker::count_calls`.

use super::nodes::{Call, Linker, Node, SearchState};
use blkkin_model::{Kind, SpanRef};

impl Linker {
    pub(super) fn count_calls<'a>(
        &mut self,
        spans: &[SpanRef<'a>],
        mut emit: impl FnMut(Call<'a>),
    ) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.is_new && node.position == SearchState::Rooted && !self.was_counted(at) {
                self.emit(at, spans, &mut emit);
            }
        }
    }

    /// Returns whether an earlier call of [`Linker::link`] counted this server's call for the
    /// client's node. If so, sets the client's `has_late_server`, so that a second late server is
    /// counted.
    fn was_counted(&mut self, at: usize) -> bool {
        let Node { kind: Kind::Server, parent: Some(parent), .. } = self.nodes[at] else {
            return false;
        };
        let client = &self.nodes[parent];
        let has_caller = |node: &Node| node.endpoint.service.is_some();
        let had_caller =
            has_caller(client) || client.ancestor.is_some_and(|at| has_caller(&self.nodes[at]));
        let was_counted = client.kind == Kind::Client
            && !client.is_new
            && !client.has_earlier_children
            && !client.has_late_server
            && client.remote.is_some()
            && had_caller;
        self.nodes[parent].has_late_server |= was_counted;
        was_counted
    }

    fn emit<'a>(&self, at: usize, spans: &[SpanRef<'a>], emit: &mut impl FnMut(Call<'a>)) {
        let node = &self.nodes[at];
        let local = node.endpoint.service(spans);
        let remote = node.remote.map_or("", |at| spans[at].remote.service);
        let kind = match node.kind {
            // The call is counted for the server's node.
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
            // Some clients give the name of the called service as their own.
            if kind == Kind::Client && !local.is_empty() && !name.eq_ignore_ascii_case(local) {
                let (is_error, duration_ns) = (false, None);
                emit(Call { parent: name, child: local, is_error, duration_ns, span: node.span });
            }
            if kind == Kind::Server || parent.is_empty() {
                parent = name;
            }
            is_error |=
                above.kind == Kind::Client && node.parent_id == Some(above.id) && above.is_error;
        }
        if !parent.is_empty() && !child.is_empty() {
            let duration_ns = node.duration_ns;
            emit(Call { parent, child, is_error, duration_ns, span: node.span });
        }
    }
}
