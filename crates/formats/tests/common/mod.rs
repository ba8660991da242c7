//! Small valid files in every format.

#![allow(dead_code, reason = "every test file that includes this module uses a part of it")]

use margay_formats::Format;

/// Valid files in a format; of a directory format, single files of it.
pub fn seeds(format: Format) -> Vec<Vec<u8>> {
    let texts: &[&str] = match format {
        Format::Margay => &[include_str!("../all.jsonl"), "{\"margay\":1}\n"],
        Format::MargayBin => return vec![include_bytes!("../all.mgb").to_vec()],
        Format::Edn => &[
            "{:index 0, :time 10, :type :invoke, :process 0, :f :txn, :value [[:append 1 1] [:r 1 nil]]}\n\
             {:index 1, :time 20, :type :ok, :process 0, :f :txn, :value [[:append 1 1] [:r 1 [1]]]}\n\
             {:index 2, :type :invoke, :process 1, :f :txn, :value [[:r 1 nil]]}\n\
             {:index 3, :type :info, :process 1, :f :txn, :value [[:r 1 nil]] :error \"timeout\"}\n",
            "[{:type :ok, :process 0, :f :txn, :value [[:w :x 1] [:r :y nil]]} ; a register\n\
             {:type :fail, :process 1, :f :txn, :value [[:w :x 2]]}]",
            "{:process 0, :type :invoke, :f :put, :key \"0\", :value \"ab\"}\n{:process 1, :type :ok, :f :get, :key \"0\", :value \"ab\"}\n",
            "{:type :ok, :f :txn, :value [[:read :x 0] [:write :x 1]], :process 3}\n",
        ],
        Format::ElleJson => &[
            "[{\"index\":0,\"type\":\"invoke\",\"process\":0,\"f\":\"txn\",\"value\":[[\"append\",1,1],[\"r\",1,null]]},\n\
             {\"index\":1,\"type\":\"ok\",\"process\":0,\"f\":\"txn\",\"value\":[[\"append\",1,1],[\"r\",1,[1]]]}]\n",
            "{\"type\":\"invoke\",\"f\":\"txn\",\"value\":[[\"w\",\"x\",2]],\"process\":0,\"index\":1}\n\
             {\"type\":\"ok\",\"f\":\"txn\",\"value\":[[\"w\",\"x\",2]],\"process\":0,\"index\":2}\n",
        ],
        Format::Text => &["w(1,1,0,1)\nw(2,1,0,1)\nr(1,1,1,2)\nr(2,0,1,2)\nw(1,3,1,-1)\n"],
        Format::Awdit => &["w 0 1\nr 1 2\n-\nw 1 2\n=\nr 0 1\n-\n=\n"],
        Format::DbcopJson => &[
            "{\"params\":{\"id\":0,\"n_node\":1,\"n_variable\":1,\"n_transaction\":1,\"n_event\":2},\"info\":\"\",\
             \"start\":\"2020-01-01T00:00:00Z\",\"end\":\"2020-01-01T00:00:01Z\",\"data\":[[{\"events\":[{\"Write\":{\"variable\":0,\
             \"version\":1}},{\"Read\":{\"variable\":0,\"version\":1}}],\"committed\":true},{\"events\":[[\"r\",1,null],[\"w\",1,2]],\
             \"committed\":false}]]}",
            "[[{\"events\":[[\"w\",1,2]],\"committed\":true}]]",
        ],
        Format::DbcopHist => &["// a history\n[x:=1 y==2 z==?]\n[y:=2]!\n---\n[x==1]\n---\n"],
        Format::Viper => &["{\"value\":[[\"w\",1,5,true],[\"r\",2,7,false]]}\n\
             {\"value\":[[\"range\",1,3,[{\"id\":1,\"val\":5}],[]],[\"i\",3,8,0,false,true,true]]}\n"],
        Format::Chronos => &[
            "[{\"tid\":1,\"sid\":0,\"sts\":{\"p\":1,\"l\":0},\"cts\":{\"p\":\"2\",\"l\":0},\"ops\":[{\"t\":\"w\",\"k\":1,\"v\":5},\
             {\"t\":\"r\",\"k\":2,\"v\":null}]},{\"tid\":2,\"sid\":1,\"sts\":{\"p\":3,\"l\":0},\"cts\":{\"p\":4,\"l\":1},\"ops\":[{\"t\":\"append\",\
             \"k\":3,\"v\":1},{\"t\":\"read\",\"k\":3,\"v\":[1]}]}]",
        ],
        Format::Leopard => &[
            "[{\"threadID\":\"0-0-3\",\"transactionID\":\"0-0-3,1\",\"operationID\":\"0-0-3,1,0\",\"operationTraceType\":\"START\",\
             \"startTimestamp\":1,\"finishTimestamp\":2,\"isolationLevel\":\"SERIALIZABLE\"},{\"threadID\":\"0-0-3\",\
             \"transactionID\":\"0-0-3,1\",\"operationID\":\"0-0-3,1,1\",\"operationTraceType\":\"UPDATE\",\"startTimestamp\":3,\
             \"finishTimestamp\":4,\"writeTupleList\":[{\"table\":\"t\",\"primaryKey\":\"1\",\"valueMap\":{\"c\":\"7\"}}],\"sql\":\"UPDATE t SET c=7\"},\
             {\"threadID\":\"0-0-3\",\"transactionID\":\"0-0-3,1\",\"operationID\":\"0-0-3,1,2\",\"operationTraceType\":\"COMMIT\",\
             \"startTimestamp\":5,\"finishTimestamp\":6}]",
        ],
        Format::JepsenLog => &[
            "INFO  jepsen.core - Worker 0 starting\nINFO  jepsen.util - 0\t:invoke\t:write\t1\nINFO  jepsen.util - 0\t:ok\t:write\t1\n\
             INFO  jepsen.util - 1\t:invoke\t:cas\t[1 2]\nINFO  jepsen.util - 1\t:info\t:cas\t:timed-out\n",
        ],
        Format::Cobra => return vec![cobra()],
        Format::Dbcop => return vec![dbcop()],
        Format::Vbox => return vec![vbox()],
    };
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn cobra() -> Vec<u8> {
    let mut out = Vec::new();
    let mut record = |tag: u8, numbers: &[u64]| {
        out.push(tag);
        numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
    };
    record(b'S', &[1]);
    record(b'W', &[11, 7, 70]);
    record(b'R', &[0xbebe_ebee, 0xbebe_ebee, 8, 0]);
    record(b'C', &[1]);
    record(b'S', &[2]);
    record(b'R', &[1, 11, 7, 70]);
    record(b'C', &[2]);
    out
}

fn dbcop() -> Vec<u8> {
    let mut out = Vec::new();
    [0_u64, 1, 2, 1, 2].iter().for_each(|n| out.extend(n.to_le_bytes()));
    for text in ["info", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00:01+00:00"] {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    let event = |out: &mut Vec<u8>, write: bool, variable: u64, value: u64| {
        out.push(u8::from(write));
        out.extend(variable.to_le_bytes());
        out.extend(value.to_le_bytes());
        out.push(1);
    };
    out.extend(1_u64.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend(2_u64.to_le_bytes());
    event(&mut out, true, 0, 1);
    event(&mut out, false, 1, 0);
    out.push(1);
    out
}

fn vbox() -> Vec<u8> {
    let mut out = Vec::new();
    let mut record = |tag: u8, id: u32, start: u64, end: u64, rest: &[u8]| {
        out.push(tag);
        out.extend(id.to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend(end.to_le_bytes());
        out.extend(rest);
    };
    let numbers = |keys: &[u64], last: &[u32]| -> Vec<u8> {
        let keys = keys.iter().flat_map(|n| n.to_le_bytes());
        keys.chain(last.iter().flat_map(|n| n.to_le_bytes())).collect()
    };
    record(b'T', 1, 10, 60, &[]);
    record(b'S', 0, 10, 15, &[]);
    record(b'W', 1, 20, 25, &numbers(&[5, 0], &[7]));
    record(b'R', 2, 30, 35, &numbers(&[5], &[1, 1]));
    let found = [numbers(&[0], &[0, 9, 1]), numbers(&[5], &[1, 1])].concat();
    record(b'P', 3, 40, 45, &found);
    record(b'C', 4, 50, 60, &[]);
    out
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut out, bytes).unwrap();
    out.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
