CREATE PROCEDURE payment(p_w INTEGER, p_d INTEGER, p_last VARCHAR(16), amount DECIMAL(6,2), paid VARCHAR(20),
                         INOUT p_c INTEGER)
LANGUAGE plpgsql AS $body$
DECLARE
  found_count INTEGER;
  w_label VARCHAR(10);
  d_label VARCHAR(10);
  by_name CURSOR FOR SELECT c_id FROM customer
    WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last ORDER BY c_first;
BEGIN
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = p_w RETURNING w_name INTO w_label;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = p_w AND d_id = p_d RETURNING 'd' INTO d_label;
  SELECT COUNT(c_id) INTO found_count FROM customer WHERE c_last = p_last AND c_d_id = p_d AND c_w_id = p_w;
  OPEN by_name;
  FOR place IN 1..(found_count + 1) / 2 LOOP
    FETCH by_name INTO p_c;
    EXIT WHEN NOT FOUND;
  END LOOP;
  CLOSE by_name;
  IF p_c IS NULL THEN RAISE EXCEPTION 'no customer'; END IF;
  UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
    c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
  INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (p_d, p_w, p_c, p_d, p_w, paid, amount, w_label || '    ' || d_label);
END
$body$;
