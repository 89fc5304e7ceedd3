//! What may be asked: one statement that only reads, and that is not too long. Start at [`parse`].

use crate::error::Error;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Sql;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Longest SQL, in bytes.
pub(crate) const LENGTH_MAX: usize = 64 << 10;

/// Most words, numbers and signs: long chains of them are worked on by recursion.
pub(crate) const TOKENS_MAX: usize = 5000;

/// Functions that make as much as one likes of a number. There is one value for all rows, so that they allocate it at
/// once; all others grow with what they read, and the limit on memory ends them.
const LEFT_OUT: [&str; 13] = [
    "array_repeat",
    "array_resize",
    "gen_series",
    "generate_series",
    "list_repeat",
    "list_resize",
    "lpad",
    "range",
    "repeat",
    "rpad",
    "space",
    "array_pad",
    "sequence",
];

/// Removes functions that nobody may call.
pub(crate) fn leave_out_functions(context: &SessionContext) {
    for name in LEFT_OUT {
        context.deregister_udf(name);
    }
}

/// Whether a function is known but left out.
pub(crate) fn is_left_out(function: &str) -> bool {
    LEFT_OUT.contains(&function)
}

/// What is asked.
pub(crate) enum Asked {
    /// Rows of tables.
    Rows(Statement),
    /// What there is, or how a query would be done.
    About(Statement),
}

/// Reads SQL; refuses what is not a question.
pub(crate) fn parse(state: &SessionState, sql: &str) -> Result<Asked, Error> {
    if sql.len() > LENGTH_MAX {
        let message = format!("the SQL has {} bytes; {LENGTH_MAX} are the most", sql.len());
        return Err(Error::usage(message));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    let tokens = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count();
    if tokens > TOKENS_MAX {
        let message = format!("the SQL has {tokens} words and signs; {TOKENS_MAX} are the most");
        return Err(Error::usage(message));
    }
    if tokens == 0 && sql.trim().is_empty() {
        return Err(Error::usage("there is no SQL").hint("blkkin sql 'SELECT count(*) FROM spans'"));
    }
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    match question(&statement) {
        Some(true) => Ok(Asked::Rows(statement)),
        Some(false) => Ok(Asked::About(statement)),
        None => Err(Error::usage("only questions are answered, nothing is changed")
            .hint("use SELECT, WITH, EXPLAIN, SHOW TABLES, SHOW COLUMNS FROM or DESCRIBE")),
    }
}

/// Whether it is a question, and if so whether for rows.
fn question(statement: &Statement) -> Option<bool> {
    match statement {
        Statement::Explain(explain) => question(&explain.statement).map(|_| false),
        Statement::Statement(sql) => match sql.as_ref() {
            Sql::Query(_) => Some(true),
            Sql::Explain { .. }
            | Sql::ExplainTable { .. }
            | Sql::ShowColumns { .. }
            | Sql::ShowFunctions { .. }
            | Sql::ShowTables { .. }
            | Sql::ShowVariable { .. } => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses plans that change something, in whatever way they came to be.
pub(crate) fn check(plan: &LogicalPlan) -> Result<(), Error> {
    let only_questions =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    only_questions
        .verify_plan(plan)
        .map_err(|_| Error::usage("only questions are answered, nothing is changed"))
}
