CREATE PROCEDURE payment(IN p_w INT, IN p_d INT, IN p_last VARCHAR(16), IN amount DECIMAL(6,2), IN paid VARCHAR(20),
                         OUT p_c INT)
BEGIN
  DECLARE done INT DEFAULT FALSE;
  DECLARE found_count, place INT;
  DECLARE w_label, d_label VARCHAR(10);
  DECLARE by_name CURSOR FOR SELECT c_id FROM customer
    WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last ORDER BY c_first;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = p_w;
  SELECT w_name INTO w_label FROM warehouse WHERE w_id = p_w;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = p_w AND d_id = p_d;
  SELECT 'd' INTO d_label FROM district WHERE d_w_id = p_w AND d_id = p_d;
  SELECT COUNT(c_id) INTO found_count FROM customer WHERE c_last = p_last AND c_d_id = p_d AND c_w_id = p_w;
  SET place = 0;
  OPEN by_name;
  customers: LOOP
    FETCH by_name INTO p_c;
    IF done THEN LEAVE customers; END IF;
    SET place = place + 1;
    IF place >= (found_count + 1) DIV 2 THEN LEAVE customers; END IF;
  END LOOP;
  CLOSE by_name;
  IF p_c IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no customer'; END IF;
  UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
    c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
  INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (p_d, p_w, p_c, p_d, p_w, paid, amount, CONCAT(w_label, '    ', d_label));
END
