//! Tables for eyes: plain columns without lines or colours, foreign text made harmless.

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use crate::escape;

/// Rows under a heading; without rows only the heading.
pub(crate) fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(heading.to_vec());
    render(table, rows)
}

/// Names and values, one pair a line.
pub(crate) fn facts(pairs: Vec<(String, String)>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    render(table, pairs.into_iter().map(|(name, value)| vec![name, value]).collect())
}

fn render(mut table: Table, rows: Vec<Vec<String>>) -> String {
    for row in rows {
        table.add_row(row.iter().map(|cell| shown(cell)).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// A cell is never empty, so that programs which count columns by their spaces find each in its place.
fn shown(cell: &str) -> String {
    if cell.is_empty() { "-".to_owned() } else { escape::plain(cell) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_stand_under_each_other_and_lines_end_with_their_text() {
        let shown = table(&["ID", "STATE"], vec![row(&["a", "pending"]), row(&["longer", ""])]);
        assert_eq!(shown, "ID      STATE\na       pending\nlonger  -\n");
        assert_eq!(table(&["ID"], Vec::new()), "ID\n");
        assert_eq!(facts(vec![("id".to_owned(), "a".to_owned())]), "id  a\n");
    }

    #[test]
    fn a_cell_stays_on_its_line_whatever_stands_in_it() {
        let shown = table(&["ID"], vec![row(&["a\nforged  row\u{1b}[2J"])]);
        assert_eq!(shown, "ID\na\\u{a}forged  row\\u{1b}[2J\n");
    }
}
