CREATE OR REPLACE PROCEDURE new_order(no_w INTEGER, no_d INTEGER, no_c INTEGER, line_count INTEGER, seed INTEGER,
                                      entry VARCHAR(20), INOUT o INTEGER, INOUT total DECIMAL(12,2))
AS $$
DECLARE
  discount customer.c_discount%TYPE;
  w_rate warehouse.w_tax%TYPE;
  d_rate district.d_tax%TYPE;
  i INTEGER;
  ordered INTEGER;
  quantity INTEGER;
  price item.i_price%TYPE;
  amount order_line.ol_amount%TYPE;
  info VARCHAR(24);
BEGIN
  -- The prices with their taxes.
  SELECT c_discount, w_tax INTO discount, w_rate FROM customer, warehouse
    WHERE w_id = no_w AND c_w_id = w_id AND c_d_id = no_d AND c_id = no_c;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = no_d AND d_w_id = no_w
    RETURNING d_next_o_id - 1, d_tax INTO o, d_rate;
  INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (o, no_d, no_w, no_c, entry, line_count, 1);
  INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (o, no_d, no_w);
  total := 0;
  FOR l IN 1..line_count LOOP
    i := (seed * 31 + l * 7) % 20 + 1;
    ordered := l % 10 + 1;
    SELECT i_price INTO price FROM item WHERE i_id = i;
    SELECT s_quantity, s_dist_01 INTO quantity, info FROM stock WHERE s_i_id = i AND s_w_id = no_w;
    IF quantity >= ordered + 10 THEN
      quantity := quantity - ordered;
    ELSE
      quantity := quantity - ordered + 91;
    END IF;
    UPDATE stock SET s_quantity = quantity, s_ytd = s_ytd + ordered, s_order_cnt = s_order_cnt + 1
      WHERE s_i_id = i AND s_w_id = no_w;
    amount := price * ordered;
    total := total + amount;
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                            ol_dist_info)
      VALUES (o, no_d, no_w, l, i, no_w, ordered, amount, info);
  END LOOP;
  total := total * (1 - discount) * (1 + w_rate + d_rate);
END;
$$ LANGUAGE 'plpgsql';
