//! TPC-C: tables, and the statements of its five transactions. Parameters are question marks.

/// The nine tables.
pub const TABLES: &[&str] = &[
    "CREATE TABLE warehouse (w_id INT PRIMARY KEY, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_city VARCHAR(20), \
     w_state VARCHAR(2), w_zip VARCHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2))",
    "CREATE TABLE district (d_id INT, d_w_id INT, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_city VARCHAR(20), \
     d_state VARCHAR(2), d_zip VARCHAR(9), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, \
     PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (c_id INT, c_d_id INT, c_w_id INT, c_first VARCHAR(16), c_middle VARCHAR(2), \
     c_last VARCHAR(16), c_credit VARCHAR(2), c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4), \
     c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, c_delivery_cnt INT, \
     c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE TABLE history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date VARCHAR(20), \
     h_amount DECIMAL(6,2), h_data VARCHAR(24))",
    "CREATE TABLE new_order (no_o_id INT, no_d_id INT, no_w_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE orders (o_id INT, o_d_id INT, o_w_id INT, o_c_id INT, o_entry_d VARCHAR(20), o_carrier_id INT, \
     o_ol_cnt INT, o_all_local INT, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE TABLE order_line (ol_o_id INT, ol_d_id INT, ol_w_id INT, ol_number INT, ol_i_id INT, \
     ol_supply_w_id INT, ol_delivery_d VARCHAR(20), ol_quantity INT, ol_amount DECIMAL(6,2), \
     ol_dist_info VARCHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "CREATE TABLE item (i_id INT PRIMARY KEY, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50))",
    "CREATE TABLE stock (s_i_id INT, s_w_id INT, s_quantity INT, s_dist_01 VARCHAR(24), s_dist_02 VARCHAR(24), \
     s_dist_03 VARCHAR(24), s_ytd INT, s_order_cnt INT, s_remote_cnt INT, s_data VARCHAR(50), \
     PRIMARY KEY (s_w_id, s_i_id))",
];

/// New-Order, in the order of its steps; the last four are once per line.
pub const NEW_ORDER: &[&str] = &[
    "SELECT w_tax FROM warehouse WHERE w_id = ?",
    "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?",
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?",
    "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
    "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)",
    "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?",
    "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_i_id = ? AND s_w_id = ?",
    "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
     s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?",
    "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, \
     ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
];

/// The other four transactions, with values for a small database.
pub const OTHERS: &[&str] = &[
    // Payment
    "UPDATE warehouse SET w_ytd = w_ytd + 12.50 WHERE w_id = 1",
    "SELECT w_street_1, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = 1",
    "UPDATE district SET d_ytd = d_ytd + 12.50 WHERE d_w_id = 1 AND d_id = 1",
    "SELECT COUNT(c_id) FROM customer WHERE c_last = 'BARBAR' AND c_d_id = 1 AND c_w_id = 1",
    "SELECT c_first, c_middle, c_id, c_credit, c_credit_lim, c_discount, c_balance FROM customer \
     WHERE c_w_id = 1 AND c_d_id = 1 AND c_last = 'BARBAR' ORDER BY c_first",
    "SELECT c_data FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 2",
    "UPDATE customer SET c_balance = c_balance - 12.50, c_ytd_payment = c_ytd_payment + 12.50, \
     c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 2",
    "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
     VALUES (1, 1, 2, 1, 1, '2024-01-01', 12.50, 'pay')",
    // Order-Status
    "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 2 \
     ORDER BY o_id DESC LIMIT 1",
    "SELECT o_id FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 2 AND o_id = \
     (SELECT MAX(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 2)",
    "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
     WHERE ol_o_id = 1 AND ol_d_id = 1 AND ol_w_id = 1",
    // Delivery
    "SELECT no_o_id FROM new_order WHERE no_d_id = 1 AND no_w_id = 1 ORDER BY no_o_id ASC LIMIT 1",
    "SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 1",
    "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 1",
    "SELECT o_c_id FROM orders WHERE o_id = 1 AND o_d_id = 1 AND o_w_id = 1",
    "UPDATE orders SET o_carrier_id = 5 WHERE o_id = 1 AND o_d_id = 1 AND o_w_id = 1",
    "UPDATE order_line SET ol_delivery_d = '2024-01-02' WHERE ol_o_id = 1 AND ol_d_id = 1 AND ol_w_id = 1",
    "SELECT SUM(ol_amount) AS ol_total FROM order_line WHERE ol_o_id = 1 AND ol_d_id = 1 AND ol_w_id = 1",
    "UPDATE customer SET c_balance = c_balance + 30.25, c_delivery_cnt = c_delivery_cnt + 1 \
     WHERE c_id = 2 AND c_d_id = 1 AND c_w_id = 1",
    // Stock-Level
    "SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 1",
    "SELECT COUNT(DISTINCT s_i_id) AS stock_count FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = 1 \
     AND ol_o_id < 22 AND ol_o_id >= 22 - 20 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 60",
    "SELECT COUNT(DISTINCT s.s_i_id) FROM order_line ol JOIN stock s ON s.s_i_id = ol.ol_i_id AND s.s_w_id = ol.ol_w_id \
     WHERE ol.ol_w_id = 1 AND ol.ol_d_id = 1 AND s.s_quantity < 60",
];

/// Rows for a database of one warehouse.
pub fn load(districts: i64, customers: i64, items: i64) -> Vec<String> {
    let mut rows = vec![
        "INSERT INTO warehouse VALUES (1, 'one', 'street', 'city', 'ST', '123456789', 0.1250, 300000.00)"
            .to_string(),
    ];
    for d in 1..=districts {
        rows.push(format!(
            "INSERT INTO district VALUES ({d}, 1, 'd{d}', 'street', 'city', 'ST', '123456789', 0.0500, 30000.00, 1)"
        ));
        for c in 1..=customers {
            let last = if c % 2 == 0 { "BARBAR" } else { "OUGHT" };
            rows.push(format!(
                "INSERT INTO customer VALUES ({c}, {d}, 1, 'first{c}', 'OE', '{last}', 'GC', 50000.00, 0.2500, -10.00, \
                 10.00, 1, 0, 'data')"
            ));
        }
    }
    for i in 1..=items {
        rows.push(format!("INSERT INTO item VALUES ({i}, 7, 'item{i}', {}.25, 'original')", 1 + i % 90));
        rows.push(format!(
            "INSERT INTO stock VALUES ({i}, 1, {}, 'dist1', 'dist2', 'dist3', 0, 0, 0, 'data')",
            10 + i % 90
        ));
    }
    rows
}

/// The text with the parameters of a dialect that numbers them.
pub fn numbered(text: &str) -> String {
    let mut count = 0;
    let mut result = String::new();
    for c in text.chars() {
        if c == '?' {
            count += 1;
            result += &format!("${count}");
        } else {
            result.push(c);
        }
    }
    result
}
