// Records what your application saw, for `margay check` (docs/RECORD.md). One file, nothing but Java: paste it in.
//
//     Recorder recorder = new Recorder("history.jsonl", "\"initial\": [[\"x\", 0]]");
//     Recorder.Session session = recorder.session();             // one per client: a thread, a connection
//     Recorder.Txn txn = session.begin(() -> connection.setAutoCommit(false));
//     long x = txn.read("x", () -> select("x"));                 // calls, records, returns what the call returned
//     txn.write("x", x + 1, () -> update("x", x + 1));
//     txn.commit(() -> connection.commit(), error -> error instanceof SQLTransactionRollbackException);
//
// A key or value is null, a Boolean, a Long, a String, or a List or Map of these. `List.of("table", key)` is a row,
// whose value is a Map of columns.
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;

public class Recorder {
    public interface Call { void run() throws Exception; }

    private final Writer file;
    private final AtomicLong sessions = new AtomicLong(), txns = new AtomicLong();

    /** `header` is JSON for the header's other fields (docs/FORMAT.md), or empty. */
    public Recorder(String path, String header) throws IOException {
        file = new OutputStreamWriter(new FileOutputStream(path), StandardCharsets.UTF_8);
        put("{\"margay\": 1, \"unit\": \"ns\"" + (header.isEmpty() ? "" : ", " + header) + "}");
    }

    private synchronized void put(String line) throws IOException {
        file.write(line + "\n");
        file.flush();
    }

    public Session session() { return new Session(sessions.getAndIncrement()); }

    /** One client, which does one thing after another. */
    public class Session {
        private final long number;

        Session(long number) { this.number = number; }

        public Txn begin(Call call) throws Exception {
            Txn txn = new Txn(number, txns.getAndIncrement());
            txn.called(() -> { call.run(); return null; }, answer -> "\"begin\": true", error -> null);
            return txn;
        }
    }

    private interface Told<T> { String of(T answer); }

    public class Txn {
        private final String names;

        Txn(long session, long txn) { names = "{\"session\": " + session + ", \"txn\": " + txn; }

        /** Calls, and records what `told` makes of the answer, or `failed` if there was none. */
        private <T> T called(Callable<T> call, Told<T> told, Told<Exception> failed) throws Exception {
            long before = System.nanoTime();
            T answer;
            try {
                answer = call.call();
            } catch (Exception error) {
                String line = failed.of(error);
                if (line != null) record(before, line);
                throw error;
            }
            record(before, told.of(answer));
            return answer;
        }

        private void record(long before, String line) throws IOException {
            put(names + ", \"at\": [" + before + ", " + System.nanoTime() + "], " + line + "}");
        }

        private void change(String line, Call call) throws Exception {
            called(() -> { call.run(); return null; }, answer -> line, error -> line);
        }

        public <T> T read(Object key, Callable<T> call) throws Exception {
            return called(call, value -> "\"read\": [[" + json(key) + ", " + json(value) + "]]", error -> null);
        }

        /** A value of null deletes. Also what was not answered may have been written. */
        public void write(Object key, Object value, Call call) throws Exception {
            change("\"write\": [[" + json(key) + ", " + json(value) + "]]", call);
        }

        public void append(Object key, Object element, Call call) throws Exception {
            change("\"append\": [[" + json(key) + ", " + json(element) + "]]", call);
        }

        /** After an error that is refused the transaction has certainly not committed; after any other one nobody knows. */
        public void commit(Call call, Predicate<Exception> refused) throws Exception {
            called(() -> { call.run(); return null; }, answer -> "\"commit\": true",
                error -> refused.test(error) ? "\"abort\": true" : "\"unknown\": true");
        }

        public void abort(Call call) throws Exception { change("\"abort\": true", call); }
    }

    static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Long || value instanceof Integer) {
            return String.valueOf(value);
        }
        StringJoiner all = new StringJoiner(", ");
        if (value instanceof List) {
            for (Object one : (List<?>) value) all.add(json(one));
            return "[" + all + "]";
        }
        if (value instanceof Map) {
            ((Map<?, ?>) value).forEach((name, one) -> all.add(json(String.valueOf(name)) + ": " + json(one)));
            return "{" + all + "}";
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < ' ') text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        return text.append('"').toString();
    }

    /** An example: two clients count in a map, one after the other in each step, so that an update is lost. */
    public static void main(String[] args) throws Exception {
        Map<String, Long> map = new HashMap<>(Map.of("x", 0L));
        Recorder recorder = new Recorder(args[0], "\"initial\": [[\"x\", 0]]");
        Txn one = recorder.session().begin(() -> {}), other = recorder.session().begin(() -> {});
        long x = one.read("x", () -> map.get("x")), y = other.read("x", () -> map.get("x"));
        one.write("x", x + 1, () -> map.put("x", x + 1));
        one.commit(() -> {}, error -> false);
        other.write("x", y + 1, () -> map.put("x", y + 1));
        other.commit(() -> {}, error -> false);
    }
}
