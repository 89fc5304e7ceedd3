//! Check that SQL is a single read-only statement of limited length. Start at [`parse`].

use crate::error::Error;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Sql;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Maximum length of the SQL, in bytes.
pub(crate) const LENGTH_MAX: usize = 64 << 10;

/// Maximum number of tokens in the SQL. A long chain of operators is processed recursively, so it
/// needs stack.
pub(crate) const TOKENS_MAX: usize = 5000;

/// Read-only statement that passed the checks.
pub(crate) enum AcceptedStatement {
    /// Query that returns rows of tables. The row limit applies.
    Rows(Statement),
    /// Statement about tables, functions, settings or a query plan. The row limit does not apply.
    Info(Statement),
}

/// Parses SQL. Refuses SQL that is empty or too long, and all statements except queries and
/// statements that return information.
pub(crate) fn parse(state: &SessionState, sql: &str) -> Result<AcceptedStatement, Error> {
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
    match classify(&statement) {
        Some(true) => Ok(AcceptedStatement::Rows(statement)),
        Some(false) => Ok(AcceptedStatement::Info(statement)),
        None => Err(Error::usage("only questions are answered, nothing is changed")
            .hint("use SELECT, WITH, EXPLAIN, SHOW TABLES, SHOW COLUMNS FROM or DESCRIBE")),
    }
}

/// Classifies a statement: `Some(true)` if it returns rows, `Some(false)` if it returns
/// information. `None` for all other statements, which may change data or settings.
fn classify(statement: &Statement) -> Option<bool> {
    match statement {
        Statement::Explain(explain) => classify(&explain.statement).map(|_| false),
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

/// Refuses a plan that would change data. This second check does not depend on how the statement
/// was classified.
pub(crate) fn check(plan: &LogicalPlan) -> Result<(), Error> {
    let only_questions =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    only_questions
        .verify_plan(plan)
        .map_err(|_| Error::usage("only questions are answered, nothing is changed"))
}
