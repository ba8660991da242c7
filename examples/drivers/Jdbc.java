// Any database with a JDBC driver as a driver for Margay (docs/EXEC.md), without other libraries.
//
//     margay run 'exec:java -cp h2.jar examples/drivers/Jdbc.java h2 "jdbc:h2:./x;AUTO_SERVER=TRUE;MODE=MySQL"' \
//         --promises snapshot-isolation
//
// Where the upserts of MySQL are not understood, the argument `keys` after the URL keeps keys and values in one table:
//
//     margay run 'exec:java -cp derbyclient.jar examples/drivers/Jdbc.java derby "jdbc:derby://localhost/x;create=true" keys' \
//         --promises serializable
import java.io.*;
import java.sql.*;
import java.util.*;
import java.util.regex.*;

public class Jdbc {
    static Connection connection;
    static boolean keys;

    public static void main(String[] args) throws Exception {
        connection = DriverManager.getConnection(args[1]);
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        keys = args.length > 2 && args[2].equals("keys");
        if (keys) createTable();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            try {
                out.println(answer(args[0], line));
            } catch (SQLException error) {
                out.println("{\"" + kind(error) + "\": " + quote(String.valueOf(error.getMessage())) + "}");
            }
        }
    }

    /** A conflict, a timeout or a key that is there already is refused; anything else no run can go on with. */
    static String kind(SQLException error) {
        String state = String.valueOf(error.getSQLState());
        boolean refused = state.startsWith("40") || state.startsWith("23") || state.equals("HYT00")
            || state.equals("90131") || error instanceof SQLTransactionRollbackException;
        return refused ? "refused" : state.startsWith("08") ? "lost" : "failed";
    }

    static String answer(String name, String line) throws SQLException {
        String op = text(line, "op");
        switch (op) {
            case "hello":
                String version = connection.getMetaData().getDatabaseProductVersion().split("[ (]")[0];
                return "{\"name\": " + quote(name) + ", \"version\": " + quote(version)
                    + (keys ? ", \"scans\": true}" : ", \"speaks\": \"sql\", \"upsert\": \"on duplicate key\"}");
            case "begin":
                return "{}";
            case "commit":
                connection.commit();
                return "{}";
            case "rollback":
                connection.rollback();
                return "{}";
            case "read":
                String value = pairs("k = ?", text(line, "key")).values().stream().findAny().orElse(null);
                return "{\"value\": " + (value == null ? "null" : quote(value)) + "}";
            case "write":
                String key = text(line, "key");
                if (line.contains("\"value\":null")) update("DELETE FROM pairs WHERE k = ?", key);
                else if (update("UPDATE pairs SET v = ? WHERE k = ?", text(line, "value"), key) == 0)
                    update("INSERT INTO pairs (v, k) VALUES (?, ?)", text(line, "value"), key);
                return "{}";
            case "scan":
                StringJoiner found = new StringJoiner(", ", "{\"pairs\": [", "]}");
                pairs("k >= ? AND k < ? ORDER BY k", text(line, "from"), text(line, "to"))
                    .forEach((k, v) -> found.add("[" + quote(k) + ", " + quote(v) + "]"));
                return found.toString();
            default:
                try (PreparedStatement statement = connection.prepareStatement(text(line, "text"))) {
                    List<Object> params = params(line);
                    for (int i = 0; i < params.size(); i++) statement.setObject(i + 1, params.get(i));
                    return statement.execute() ? rows(statement.getResultSet())
                        : "{\"count\": " + statement.getUpdateCount() + "}";
                }
        }
    }

    static void createTable() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE pairs (k VARCHAR(60) PRIMARY KEY, v VARCHAR(8000) NOT NULL)");
        } catch (SQLException error) {
            if (!"X0Y32".equals(error.getSQLState())) throw error;  // Another client was faster.
        }
        connection.commit();
    }

    static PreparedStatement prepared(String text, String... params) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(text);
        for (int i = 0; i < params.length; i++) statement.setString(i + 1, params[i]);
        return statement;
    }

    static int update(String text, String... params) throws SQLException {
        try (PreparedStatement statement = prepared(text, params)) { return statement.executeUpdate(); }
    }

    static Map<String, String> pairs(String where, String... params) throws SQLException {
        Map<String, String> pairs = new LinkedHashMap<>();
        try (PreparedStatement statement = prepared("SELECT k, v FROM pairs WHERE " + where, params);
             ResultSet found = statement.executeQuery()) {
            while (found.next()) pairs.put(found.getString(1), found.getString(2));
        }
        return pairs;
    }

    static String rows(ResultSet found) throws SQLException {
        int columns = found.getMetaData().getColumnCount();
        StringJoiner rows = new StringJoiner(", ", "{\"rows\": [", "]}");
        while (found.next()) {
            StringJoiner row = new StringJoiner(", ", "[", "]");
            for (int i = 1; i <= columns; i++) {
                Object cell = found.getObject(i);
                boolean whole = cell instanceof Long || cell instanceof Integer || cell instanceof Short;
                row.add(cell == null ? "null" : whole ? cell.toString() : quote(found.getString(i)));
            }
            rows.add(row.toString());
        }
        return rows.toString();
    }

    static final String STRING = "\"((?:[^\"\\\\]++|\\\\.)*+)\"";

    static String text(String line, String key) {
        Matcher found = Pattern.compile("\"" + key + "\":" + STRING).matcher(line);
        return found.find() ? unquote(found.group(1)) : "";
    }

    /** The list that stands last: Margay sorts the keys of its objects except this one's. */
    static List<Object> params(String line) {
        List<Object> all = new ArrayList<>();
        int start = line.indexOf("\"params\":[");
        Matcher one = Pattern.compile(STRING + "|(null)|(-?\\d+)|(\\])").matcher(line);
        for (int at = start + 10; one.find(at); at = one.end()) {
            if (one.group(4) != null) break;
            all.add(one.group(1) != null ? unquote(one.group(1)) : one.group(2) != null ? null : Long.valueOf(one.group(3)));
        }
        return all;
    }

    static String unquote(String text) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c != '\\') { out.append(c); continue; }
            char next = text.charAt(++i);
            if (next == 'u') { out.append((char) Integer.parseInt(text.substring(i + 1, i + 5), 16)); i += 4; }
            else out.append(next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next);
        }
        return out.toString();
    }

    static String quote(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "\"";
    }
}
