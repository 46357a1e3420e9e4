package interop;

import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.log.XxlJobFileAppender;
import java.lang.reflect.Field;
import java.nio.file.Path;

/** An executor without a framework: {@code App ADMIN_URL APP_NAME TOKEN PORT FOLDER}; ends well on SIGTERM. */
public final class App {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[3]);
        Path folder = Path.of(args[4]);
        keepOutcomesIn(folder.resolve("logs"));
        XxlJobExecutor executor = Bridge.executor(new Work(folder.resolve("executed")));
        executor.setAdminAddresses(args[0]);
        executor.setAppname(args[1]);
        executor.setAccessToken(args[2]);
        executor.setAddress("");
        executor.setIp("127.0.0.1");
        executor.setPort(port);
        executor.setLogPath(folder.resolve("logs").toString());
        executor.setLogRetentionDays(30);
        executor.start();
        Runtime.getRuntime().addShutdownHook(new Thread(executor::destroy));
        Thread.currentThread().join();
    }
    /**
     * Gives 3.3 a folder of its own for outcomes that it could not report. It keeps them under the default log path,
     * whatever path is set, and sends what others left there: those of other tests, to a node that does not know them.
     */
    private static void keepOutcomesIn(Path logs) throws IllegalAccessException {
        for (Field field : XxlJobFileAppender.class.getDeclaredFields()) {
            if (field.getName().equals("callbackLogPath")) {
                field.setAccessible(true);
                field.set(null, logs.resolve("callbacklogs").toString());
            }
        }
    }
}
