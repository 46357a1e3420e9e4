package interop;

import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.executor.impl.XxlJobSimpleExecutor;
import com.xxl.job.core.handler.annotation.XxlJob;
import java.util.List;

/** Handlers from 2.3 on: annotated methods that ask the helper for everything. */
final class Bridge {
    static XxlJobExecutor executor(Work work) {
        XxlJobSimpleExecutor executor = new XxlJobSimpleExecutor();
        executor.setXxlJobBeanList(List.of(new Handlers(work)));
        return executor;
    }

    /** The methods that the library finds. */
    public static final class Handlers {
        private final Work work;

        Handlers(Work work) {
            this.work = work;
        }

        @XxlJob("echo")
        public void echo() throws Exception {
            int shard = XxlJobHelper.getShardIndex();
            int shards = XxlJobHelper.getShardTotal();
            XxlJobHelper.handleSuccess(work.echo(XxlJobHelper.getJobParam(), shard, shards, this::log));
        }

        @XxlJob("nothing")
        public void nothing() {}

        @XxlJob("sleep")
        public void sleep() throws Exception {
            XxlJobHelper.handleSuccess(work.sleep(XxlJobHelper.getJobParam()));
        }

        @XxlJob("hold")
        public void hold() throws Exception {
            XxlJobHelper.handleSuccess(work.hold(XxlJobHelper.getJobParam()));
        }

        @XxlJob("fail")
        public void fail() throws Exception {
            work.fail(XxlJobHelper.getJobParam());
        }

        @XxlJob("lines")
        public void lines() throws Exception {
            XxlJobHelper.handleSuccess(work.lines(XxlJobHelper.getJobParam(), this::log));
        }

        private void log(String line) {
            XxlJobHelper.log(line);
        }
    }
}
