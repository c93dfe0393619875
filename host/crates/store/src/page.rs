//! Parts of lists whose rows have long texts.

use std::ops::ControlFlow;

use airlock_database::sql::{Param, Sql, SqlResult};

/// Maximum bytes of the texts in a part of a list, which has to fit into the memory share of the
/// caller that reads it: models write these texts, of 64 KiB and more each. The first row is in it
/// whatever its size.
const MAX_BYTES: u64 = 8 << 20;

/// Counts the first rows of a list that are shown together: at most `limit`. Returns also whether there are more. `select`
/// returns the sizes of the rows, one row more than the limit, with the bytes in the column of this number. A server
/// would send all texts, also those that have no room, so they are read later.
pub(crate) fn count_fitting(
    sql: &Sql<'_>,
    select: &str,
    params: &[Param<'_>],
    bytes_column: usize,
    limit: u32,
) -> SqlResult<(u32, bool)> {
    let mut count = 0;
    let mut bytes = 0_u64;
    let more = sql.each(select, params, |row| {
        let size = u64::try_from(row.get::<i64>(bytes_column)?).unwrap_or(0);
        bytes = bytes.saturating_add(size);
        if count == limit || (count > 0 && bytes > MAX_BYTES) {
            return Ok(ControlFlow::Break(()));
        }
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((count, more.is_some()))
}
