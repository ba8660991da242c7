//! The tables of TPC-C and what they begin with.

use margay_client::{Cell, ColumnType, Schema, TableDef};

use super::{CUSTOMERS, DISTRICTS};

const INT: ColumnType = ColumnType::Int;

const TABLES: [TableDef; 9] = [
    TableDef {
        name: "margay_warehouse",
        key: 1,
        columns: &[("w_id", INT), ("w_tax", INT), ("w_ytd", INT)],
        indexes: &[],
    },
    TableDef {
        name: "margay_district",
        key: 2,
        columns: &[("d_w_id", INT), ("d_id", INT), ("d_tax", INT), ("d_ytd", INT), ("d_next_o_id", INT)],
        indexes: &[],
    },
    TableDef {
        name: "margay_customer",
        key: 3,
        columns: &[
            ("c_w_id", INT),
            ("c_d_id", INT),
            ("c_id", INT),
            ("c_last", ColumnType::Text(16)),
            ("c_credit", ColumnType::Text(2)),
            ("c_discount", INT),
            ("c_balance", INT),
            ("c_ytd_payment", INT),
            ("c_payment_cnt", INT),
            ("c_delivery_cnt", INT),
            ("c_data", ColumnType::Text(250)),
        ],
        indexes: &["c_last"],
    },
    TableDef {
        name: "margay_history",
        key: 1,
        columns: &[("h_id", INT), ("h_c_d_id", INT), ("h_c_w_id", INT), ("h_c_id", INT), ("h_amount", INT)],
        indexes: &[],
    },
    TableDef {
        name: "margay_new_order",
        key: 3,
        columns: &[("no_w_id", INT), ("no_d_id", INT), ("no_o_id", INT)],
        indexes: &[],
    },
    TableDef {
        name: "margay_orders",
        key: 3,
        columns: &[
            ("o_w_id", INT),
            ("o_d_id", INT),
            ("o_id", INT),
            ("o_c_id", INT),
            ("o_entry_d", INT),
            ("o_carrier_id", INT),
            ("o_ol_cnt", INT),
        ],
        indexes: &["o_c_id"],
    },
    TableDef {
        name: "margay_order_line",
        key: 4,
        columns: &[
            ("ol_w_id", INT),
            ("ol_d_id", INT),
            ("ol_o_id", INT),
            ("ol_number", INT),
            ("ol_i_id", INT),
            ("ol_delivery_d", INT),
            ("ol_quantity", INT),
            ("ol_amount", INT),
        ],
        indexes: &[],
    },
    TableDef {
        name: "margay_item",
        key: 1,
        columns: &[("i_id", INT), ("i_name", ColumnType::Text(24)), ("i_price", INT)],
        indexes: &[],
    },
    TableDef {
        name: "margay_stock",
        key: 2,
        columns: &[
            ("s_w_id", INT),
            ("s_i_id", INT),
            ("s_quantity", INT),
            ("s_ytd", INT),
            ("s_order_cnt", INT),
        ],
        indexes: &[],
    },
];

/// The last name of a customer: three syllables by the digits of a number, so that some share
/// theirs.
pub(super) fn last_name(customer: i64) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let number = (customer % (CUSTOMERS / 3).max(1)) as usize;
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit]).concat()
}

/// The initial state: prices and taxes are not drawn, they only have to differ.
pub(super) fn schema(items: i64) -> Schema {
    let ints = |table, ints: &[i64]| (table, ints.iter().copied().map(Cell::Int).collect::<Vec<_>>());
    let mut rows = vec![ints(0, &[1, 10, 30_000_000])];
    for district in 1..=DISTRICTS {
        rows.push(ints(1, &[1, district, district % 20, 3_000_000, 1]));
        rows.extend((1..=CUSTOMERS).map(|customer| (2, self::customer(district, customer))));
    }
    for item in 1..=items {
        rows.push((
            7,
            vec![Cell::Int(item), Cell::Text(format!("item {item}")), Cell::Int(100 + item * 7 % 9900)],
        ));
        rows.push(ints(8, &[1, item, 10 + item * 13 % 91, 0, 0]));
    }
    Schema { tables: TABLES.to_vec(), rows }
}

fn customer(district: i64, customer: i64) -> Vec<Cell> {
    let credit = if customer % 10 == 0 { "BC" } else { "GC" };
    let mut row: Vec<Cell> = [1, district, customer].map(Cell::Int).to_vec();
    row.extend([Cell::Text(last_name(customer)), credit.into()]);
    row.extend([customer % 50, -1000, 1000, 1, 0].map(Cell::Int));
    row.push("".into());
    row
}
