package interop;

import com.xxl.job.core.biz.model.ReturnT;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.handler.IJobHandler;
import com.xxl.job.core.log.XxlJobLogger;
import com.xxl.job.core.util.ShardingUtil;

/** Handlers for 2.2: the parameter is an argument, the result a value. */
final class Bridge {
    private interface Step {
        String run(String param) throws Exception;
    }

    static XxlJobExecutor executor(Work work) {
        register("echo", param -> {
            ShardingUtil.ShardingVO shard = ShardingUtil.getShardingVo();
            return work.echo(param, shard.getIndex(), shard.getTotal(), line -> XxlJobLogger.log(line));
        });
        register("nothing", param -> "");
        register("sleep", work::sleep);
        register("hold", work::hold);
        register("fail", param -> {
            work.fail(param);
            return "";
        });
        register("lines", param -> work.lines(param, line -> XxlJobLogger.log(line)));
        return new XxlJobExecutor();
    }

    private static void register(String name, Step step) {
        XxlJobExecutor.registJobHandler(name, new IJobHandler() {
            @Override
            public ReturnT<String> execute(String param) throws Exception {
                return new ReturnT<>(ReturnT.SUCCESS_CODE, step.run(param));
            }
        });
    }
}
