CREATE PROCEDURE new_order(IN no_w INT, IN no_d INT, IN no_c INT, IN line_count INT, IN seed INT,
                           IN entry VARCHAR(20), OUT o INT, OUT total DECIMAL(12,2))
MODIFIES SQL DATA
BEGIN
  DECLARE discount, w_rate, d_rate DECIMAL(4,4);
  DECLARE l, i, ordered, quantity INT;
  DECLARE price DECIMAL(5,2);
  DECLARE amount DECIMAL(6,2);
  DECLARE info VARCHAR(24);
  -- The prices with their taxes.
  SELECT c_discount, w_tax INTO discount, w_rate FROM customer, warehouse
    WHERE w_id = no_w AND c_w_id = w_id AND c_d_id = no_d AND c_id = no_c;
  SELECT d_next_o_id, d_tax INTO o, d_rate FROM district WHERE d_id = no_d AND d_w_id = no_w FOR UPDATE;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = no_d AND d_w_id = no_w;
  INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (o, no_d, no_w, no_c, entry, line_count, 1);
  INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (o, no_d, no_w);
  SET l = 1, total = 0;
  WHILE l <= line_count DO
    SET i = (seed * 31 + l * 7) % 20 + 1;
    SET ordered = l % 10 + 1;
    SELECT i_price INTO price FROM item WHERE i_id = i;
    SELECT s_quantity, s_dist_01 INTO quantity, info FROM stock WHERE s_i_id = i AND s_w_id = no_w;
    IF quantity >= ordered + 10 THEN
      SET quantity = quantity - ordered;
    ELSE
      SET quantity = quantity - ordered + 91;
    END IF;
    UPDATE stock SET s_quantity = quantity, s_ytd = s_ytd + ordered, s_order_cnt = s_order_cnt + 1
      WHERE s_i_id = i AND s_w_id = no_w;
    SET amount = price * ordered;
    SET total = total + amount;
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                            ol_dist_info)
      VALUES (o, no_d, no_w, l, i, no_w, ordered, amount, info);
    SET l = l + 1;
  END WHILE;
  SET total = total * (1 - discount) * (1 + w_rate + d_rate);
END
