//! What `[…]` means behind an expression: a part of a struct, or what a map has for a key.
//!
//! DataFusion has a planner for this among its functions on arrays and maps, of which nothing else is needed for our
//! tables, and which take two minutes of building.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::functions::core::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{GetFieldAccess, lit};

#[derive(Debug)]
pub(crate) struct Access;

impl ExprPlanner for Access {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let name = match &access.field_access {
            GetFieldAccess::NamedStructField { name } => lit(name.clone()),
            GetFieldAccess::ListIndex { key } => (**key).clone(),
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(access)),
        };
        Ok(PlannerResult::Planned(get_field().call(vec![access.expr, name])))
    }
}
