// Two clients count in a row of any database with a JDBC driver; what they saw is recorded.
//
//     javac -d . Recorder.java CountByJdbc.java
//     java -cp h2.jar:. CountByJdbc counter.jsonl "jdbc:h2:mem:x;DB_CLOSE_DELAY=-1" 2
//
// The last argument is a level of java.sql.Connection: at 2, READ COMMITTED, they lose updates.
import java.sql.*;

public class CountByJdbc {
    /** Class 40, and H2's 90131: the transaction does not commit. */
    static boolean isRefused(Exception error) {
        String state = error instanceof SQLException ? String.valueOf(((SQLException) error).getSQLState()) : "";
        return state.startsWith("40") || state.equals("90131");
    }

    static void once(Connection database, Recorder.Session session) throws Exception {
        Recorder.Txn txn = session.begin(() -> {});
        try {
            count(database, txn);
        } catch (SQLException error) {
            if (!isRefused(error)) throw error;
            txn.abort(database::rollback);
            return;
        }
        try {
            txn.commit(database::commit, CountByJdbc::isRefused);
        } catch (SQLException error) {
            if (!isRefused(error)) throw error;  // A refused commit is recorded as the end of the transaction.
        }
    }

    static void count(Connection database, Recorder.Txn txn) throws Exception {
        try (Statement statement = database.createStatement()) {
            long n = txn.read("x", () -> {
                ResultSet found = statement.executeQuery("SELECT n FROM counter");
                found.next();
                return found.getLong(1);
            });
            Thread.sleep(2);
            txn.write("x", n + 1, () -> statement.executeUpdate("UPDATE counter SET n = " + (n + 1)));
        }
    }

    public static void main(String[] args) throws Exception {
        try (Connection database = DriverManager.getConnection(args[1]); Statement statement = database.createStatement()) {
            statement.execute("CREATE TABLE counter (n BIGINT)");
            statement.execute("INSERT INTO counter VALUES (0)");
        }
        Recorder recorder = new Recorder(args[0], "\"initial\": [[\"x\", 0]]");
        Thread[] clients = new Thread[2];
        for (int i = 0; i < clients.length; i++) {
            Recorder.Session session = recorder.session();
            clients[i] = new Thread(() -> {
                try (Connection database = DriverManager.getConnection(args[1])) {
                    database.setAutoCommit(false);
                    database.setTransactionIsolation(Integer.parseInt(args[2]));
                    for (int times = 0; times < 20; times++) once(database, session);
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            clients[i].start();
        }
        for (Thread client : clients) client.join();
    }
}
