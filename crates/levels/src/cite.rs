//! The literature: keys and full references, the one list from which `docs/REFERENCES.md` is made.

/// One reference.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// How it is cited.
    pub key: &'static str,
    /// The full reference, one paragraph.
    pub text: &'static str,
}

/// The reference of a key.
pub fn find(key: &str) -> Option<&'static Reference> {
    REFERENCES.iter().find(|r| r.key == key)
}

const fn r(key: &'static str, text: &'static str) -> Reference {
    Reference { key, text }
}

/// Every reference, by key.
pub const REFERENCES: &[Reference] = &[
    r(
        "3TS",
        "Haixiang Li, Yuxing Chen, Xiaoyan Li. Coo: consistency check for transactional databases. \
        arXiv:2206.14602, 2022. With the test cases of 3TS, https://github.com/Tencent/3TS.",
    ),
    r(
        "Adya1999",
        "Atul Adya. Weak consistency: a generalized theory and optimistic implementations for distributed \
        transactions. PhD thesis, MIT, 1999. The levels in short: Atul Adya, Barbara Liskov, Patrick O'Neil. \
        Generalized isolation level definitions. ICDE 2000.",
    ),
    r(
        "AWDIT",
        "Lasse Møldrup, Andreas Pavlogiannis. AWDIT: an optimal weak database isolation tester. PACMPL 9 \
        (PLDI), 209, 2025. doi:10.1145/3742465.",
    ),
    r(
        "Berenson1995",
        "Hal Berenson, Phil Bernstein, Jim Gray, Jim Melton, Elizabeth O'Neil, Patrick O'Neil. A \
        critique of ANSI SQL isolation levels. SIGMOD 1995.",
    ),
    r(
        "BiswasEnea2019",
        "Ranadeep Biswas, Constantin Enea. On the complexity of checking transactional consistency. \
        PACMPL 3 (OOPSLA), 165, 2019. doi:10.1145/3360591. With the tool dbcop.",
    ),
    r(
        "Cahill2009",
        "Michael J. Cahill, Uwe Röhm, Alan D. Fekete. Serializable isolation for snapshot databases. \
        ACM TODS 34(4), 20, 2009. doi:10.1145/1620585.1620587.",
    ),
    r(
        "CeroneBernardiGotsman2015",
        "Andrea Cerone, Giovanni Bernardi, Alexey Gotsman. A framework for transactional \
        consistency models with atomic visibility. CONCUR 2015.",
    ),
    r(
        "CeroneGotsman2016",
        "Andrea Cerone, Alexey Gotsman. Analysing snapshot isolation. PODC 2016; Journal of the \
        ACM 65(2), 11, 2018.",
    ),
    r(
        "Cobra",
        "Cheng Tan, Changgeng Zhao, Shuai Mu, Michael Walfish. Cobra: making transactional key-value stores \
        verifiably serializable. OSDI 2020.",
    ),
    r(
        "CockroachDB",
        "Rebecca Taft and others. CockroachDB: the resilient geo-distributed SQL database. SIGMOD 2020. \
        Transaction layer: https://www.cockroachlabs.com/docs/stable/architecture/transaction-layer.",
    ),
    r(
        "Crooks2017",
        "Natacha Crooks, Youer Pu, Lorenzo Alvisi, Allen Clement. Seeing is believing: a client-centric \
        specification of database isolation. PODC 2017.",
    ),
    r(
        "DaudjeeSalem2004",
        "Khuzaima Daudjee, Kenneth Salem. Lazy database replication with ordering guarantees. ICDE \
        2004. doi:10.1109/ICDE.2004.1320016.",
    ),
    r(
        "DaudjeeSalem2006",
        "Khuzaima Daudjee, Kenneth Salem. Lazy database replication with snapshot isolation. VLDB \
        2006.",
    ),
    r(
        "Derby",
        "Apache Derby Developer's Guide: transaction isolation levels. https://db.apache.org/derby/docs/.",
    ),
    r("DuckDB", "DuckDB documentation: concurrency; transaction management. https://duckdb.org/docs/."),
    r(
        "Elle",
        "Kyle Kingsbury, Peter Alvaro. Elle: inferring isolation anomalies from experimental observations. \
        PVLDB 14(3), 268-280, 2020. Models and anomalies as of Elle 0.2.7, https://github.com/jepsen-io/elle.",
    ),
    r(
        "EmmeTOCS",
        "Jack Clark, Manuel Rigger, John Wickerson, Alastair F. Donaldson. Bringing order to practical validation of \
 database isolation levels. ACM TOCS. Emme, Enne and King Cobra. First version: Jack Clark, Alastair F. Donaldson, John \
 Wickerson, Manuel Rigger. Validating database system isolation level implementations with version certificate recovery. \
 EuroSys 2024. doi:10.1145/3627703.3650080.",
    ),
    r(
        "Eswaran1976",
        "K. P. Eswaran, J. N. Gray, R. A. Lorie, I. L. Traiger. The notions of consistency and predicate \
        locks in a database system. CACM 19(11), 624-633, 1976. doi:10.1145/360363.360369.",
    ),
    r("Etcd", "etcd: KV API guarantees. https://etcd.io/docs/v3.4/learning/api_guarantees/."),
    r(
        "Fekete2004",
        "Alan Fekete, Elizabeth O'Neil, Patrick O'Neil. A read-only transaction anomaly under snapshot \
        isolation. SIGMOD Record 33(3), 12-14, 2004.",
    ),
    r(
        "Fekete2005",
        "Alan Fekete, Dimitrios Liarokapis, Elizabeth O'Neil, Patrick O'Neil, Dennis Shasha. Making \
        snapshot isolation serializable. ACM TODS 30(2), 492-528, 2005. doi:10.1145/1071610.1071615.",
    ),
    r(
        "Firebird",
        "Firebird 3.0 language reference: transaction control. https://firebirdsql.org/en/reference-manuals/.",
    ),
    r("Fjall", "fjall: documentation of transactions. https://docs.rs/fjall."),
    r(
        "FoundationDB",
        "Jingyu Zhou and others. FoundationDB: a distributed unbundled transactional key value store. \
        SIGMOD 2021.",
    ),
    r("H2", "H2: transaction isolation. https://h2database.com/html/advanced.html."),
    r(
        "HerlihyWing1990",
        "Maurice P. Herlihy, Jeannette M. Wing. Linearizability: a correctness condition for \
        concurrent objects. ACM TOPLAS 12(3), 463-492, 1990.",
    ),
    r(
        "Hermitage",
        "Martin Kleppmann. Hermitage: testing transaction isolation levels. \
        https://github.com/ept/hermitage, 2014-2024.",
    ),
    r("Hsqldb", "HSQLDB: sessions and transactions. https://hsqldb.org/doc/2.0/guide/sessions-chapt.html."),
    r(
        "IsoVista",
        "Long Gu, Si Liu, Tiancheng Xing, Hengfeng Wei, Yuxing Chen, David Basin. IsoVista: black-box \
        checking database isolation guarantees. PVLDB 17(12), 2024.",
    ),
    r(
        "JepsenPostgres",
        "Kyle Kingsbury. Jepsen: PostgreSQL 12.3. https://jepsen.io/analyses/postgresql-12.3, 2020.",
    ),
    r(
        "KungRobinson1981",
        "H. T. Kung, John T. Robinson. On optimistic methods for concurrency control. ACM TODS \
        6(2), 213-226, 1981.",
    ),
    r(
        "Leopard",
        "Keqiang Li, Siyang Weng, Peiyuan Liu, Lyu Ni, Chengcheng Yang, Rong Zhang, Xuan Zhou, Jianghang \
        Lou, Gui Huang, Weining Qian, Aoying Zhou. Leopard: a black-box approach for efficiently verifying various \
        isolation levels. ICDE 2023. With its technical report, IL-Description and bug list, \
        https://github.com/DBHammer/Leopard.",
    ),
    r("Lmdb", "LMDB: documentation. http://www.lmdb.tech/doc/."),
    r(
        "MariaDB",
        "MariaDB documentation: SET TRANSACTION; innodb_snapshot_isolation. \
        https://mariadb.com/kb/en/set-transaction/.",
    ),
    r(
        "MTC",
        "Hengfeng Wei, Jiang Xiao, Na Yang, Si Liu and others. Boosting end-to-end database isolation checking via \
 mini-transactions. arXiv:2504.02344, 2025.",
    ),
    r(
        "MySQL",
        "MySQL 8.0 Reference Manual, 15.7.2 InnoDB transaction model: isolation levels, consistent \
        nonlocking reads, locking reads. https://dev.mysql.com/doc/refman/8.0/en/innodb-transaction-model.html.",
    ),
    r("NuoDB", "NuoDB documentation: supported transaction isolation levels. https://doc.nuodb.com/."),
    r(
        "OceanBase",
        "Zhenkun Yang and others. OceanBase: a 707 million tpmC distributed relational database system. \
        PVLDB 15(12), 2022. Isolation levels: https://en.oceanbase.com/docs/.",
    ),
    r(
        "ONeil2016",
        "Elizabeth J. O'Neil, Patrick E. O'Neil. Determining serialization order for serializable snapshot \
        isolation. Information Systems 58, 14-23, 2016. doi:10.1016/j.is.2016.02.001.",
    ),
    r(
        "OpenGauss",
        "Guoliang Li and others. openGauss: an autonomous database system. PVLDB 14(12), 3028-3042, 2021. \
        SET TRANSACTION: https://docs.opengauss.org/.",
    ),
    r("Oracle", "Oracle Database Concepts: data concurrency and consistency. https://docs.oracle.com/."),
    r(
        "Papadimitriou1979",
        "Christos H. Papadimitriou. The serializability of concurrent database updates. JACM \
        26(4), 631-653, 1979. doi:10.1145/322154.322158.",
    ),
    r(
        "Percolator",
        "Daniel Peng, Frank Dabek. Large-scale incremental processing using distributed transactions and \
        notifications. OSDI 2010.",
    ),
    r(
        "Plume",
        "Si Liu, Long Gu, Hengfeng Wei, David Basin. Plume: efficient and complete black-box checking of weak \
        isolation levels. PACMPL 8 (OOPSLA2), 302, 2024. doi:10.1145/3689742.",
    ),
    r(
        "PolySI",
        "Kaile Huang, Si Liu, Zhenge Chen, Hengfeng Wei, David Basin, Haixiang Li, Anqun Pan. Efficient \
        black-box checking of snapshot isolation in databases. PVLDB 16(6), 1264-1276, 2023. \
        doi:10.14778/3583140.3583145.",
    ),
    r(
        "PortsGrittner2012",
        "Dan R. K. Ports, Kevin Grittner. Serializable snapshot isolation in PostgreSQL. PVLDB \
        5(12), 1850-1861, 2012. doi:10.14778/2367502.2367523.",
    ),
    r(
        "PostgreSQL",
        "PostgreSQL documentation, chapter 13: concurrency control. \
        https://www.postgresql.org/docs/current/mvcc.html.",
    ),
    r(
        "RAMP",
        "Peter Bailis, Alan Fekete, Joseph M. Hellerstein, Ali Ghodsi, Ion Stoica. Scalable atomic visibility \
        with RAMP transactions. SIGMOD 2014. On monotonic atomic view: Peter Bailis and others. Highly available \
        transactions: virtues and limitations. PVLDB 7(3), 2013.",
    ),
    r("Redb", "redb: design document. https://github.com/cberner/redb/blob/master/docs/design.md."),
    r("Redis", "Redis: transactions. https://redis.io/docs/latest/develop/interact/transactions/."),
    r("RocksDB", "RocksDB wiki: transactions. https://github.com/facebook/rocksdb/wiki/Transactions."),
    r(
        "SapHana",
        "Vishal Sikka and others. Efficient transaction processing in SAP HANA database: the end of a column \
        store myth. SIGMOD 2012. SET TRANSACTION: https://help.sap.com/.",
    ),
    r("SingleStore", "SingleStore documentation: isolation level. https://docs.singlestore.com/."),
    r("SlateDB", "slatedb: documentation of transactions. https://docs.rs/slatedb."),
    r("Spanner", "James C. Corbett and others. Spanner: Google's globally-distributed database. OSDI 2012."),
    r(
        "SQLite",
        "SQLite documentation: isolation in SQLite; write-ahead logging; shared-cache mode. \
        https://www.sqlite.org/isolation.html.",
    ),
    r(
        "SqlServer",
        "Microsoft SQL Server documentation: transaction locking and row versioning guide. \
        https://learn.microsoft.com/sql.",
    ),
    r("SurrealKV", "surrealkv: README and documentation of transactions. https://docs.rs/surrealkv."),
    r(
        "TiDB",
        "Dongxu Huang and others. TiDB: a Raft-based HTAP database. PVLDB 13(12), 3072-3084, 2020. Isolation \
        levels: https://docs.pingcap.com/tidb/stable/transaction-isolation-levels.",
    ),
    r(
        "Troubadour",
        "Lauren Pick, Amanda Xu, Ankush Desai, Sanjit A. Seshia, Aws Albarghouthi. Checking observational \
        correctness of database systems. PACMPL 9 (OOPSLA1), 2025. Artifact: doi:10.5281/zenodo.14918621.",
    ),
    r("Turso", "Turso documentation: BEGIN CONCURRENT and MVCC. https://docs.turso.tech/."),
    r("Vbox", "Weihua Sun. Vbox: efficient black-box serializability verification. 2025."),
    r(
        "VeriStrong",
        "Zhiheng Cai, Si Liu, Hengfeng Wei, Yuxing Chen, Anqun Pan. Fast verification of strong database isolation. \
 PVLDB 2026; arXiv:2511.14067.",
    ),
    r(
        "Viper",
        "Jian Zhang, Ye Ji, Shuai Mu, Cheng Tan. Viper: a fast snapshot isolation checker. EuroSys 2023.",
    ),
    r(
        "Walter2011",
        "Yair Sovran, Russell Power, Marcos K. Aguilera, Jinyang Li. Transactional storage for \
        geo-replicated systems. SOSP 2011.",
    ),
    r(
        "YugabyteDB",
        "YugabyteDB documentation: transaction isolation levels. \
        https://docs.yugabyte.com/preview/architecture/transactions/isolation-levels/.",
    ),
];
