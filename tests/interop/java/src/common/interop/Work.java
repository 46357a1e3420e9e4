package interop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.function.Consumer;

/** What the handlers do, whatever the library's generation. */
final class Work {
    private final Path executed;

    Work(Path executed) {
        this.executed = executed;
    }

    String echo(String param, int shard, int shards, Consumer<String> log) throws IOException {
        note("start", param);
        log.accept("echo: " + param);
        note("end", param);
        return param + " " + shard + "/" + shards;
    }

    String sleep(String param) throws Exception {
        note("start", param);
        Thread.sleep((long) (1000 * Double.parseDouble(param.split(" ")[0])));
        note("end", param);
        return "slept";
    }

    void fail(String param) throws IOException {
        note("start", param);
        throw new IllegalStateException("no luck with " + param);
    }

    String lines(String param, Consumer<String> log) throws Exception {
        note("start", param);
        String[] words = param.split(" ");
        int count = Integer.parseInt(words[0]);
        for (int line = 1; line <= count; line++) {
            log.accept("line " + line + " of " + count);
            if (line == count / 2) {
                await(words[1]);
            }
        }
        note("end", param);
        return "logged";
    }

    String hold(String param) throws Exception {
        note("start", param);
        await(param);
        note("end", param);
        return "held";
    }

    private void await(String label) throws InterruptedException {
        while (!Files.exists(executed.resolveSibling(label))) {
            Thread.sleep(20);
        }
    }

    private synchronized void note(String word, String param) throws IOException {
        byte[] line = (word + " " + param + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(executed, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
