// An executor on the published Go library: interop ADMIN_URL APP_NAME TOKEN PORT FOLDER; ends well on SIGTERM.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"
)

// The library keeps one task for each name, and mixes up runs of two jobs that share one: each job needs its own.
const copies = 40

// How long a handler that was cut short keeps its end to itself, so that what replaced it has reported first.
const farewell = 4 * time.Second

type app struct {
	folder string
	mu     sync.Mutex
	open   map[int64]map[int64]bool // by job: runs that began and did not end
}

func main() {
	url, name, token, port, folder := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	executor := xxl.NewExecutor(
		xxl.ServerAddr(url),
		xxl.AccessToken(token),
		xxl.ExecutorIp("127.0.0.1"),
		xxl.ExecutorPort(port),
		xxl.RegistryKey(name),
		xxl.SetLogger(plain{}),
	)
	executor.Init()
	work := &app{folder: folder, open: map[int64]map[int64]bool{}}
	handlers := map[string]xxl.TaskFunc{
		"echo": work.echo, "sleep": work.sleep, "hold": work.hold, "fail": work.fail, "lines": work.lines,
	}
	for name, handler := range handlers {
		executor.RegTask(name, handler)
		for number := 1; number <= copies; number++ {
			executor.RegTask(fmt.Sprintf("%s.%d", name, number), handler)
		}
	}
	executor.LogHandler(work.readLog)
	if err := executor.Run(); err != nil {
		panic(err)
	}
}

func (a *app) echo(_ context.Context, run *xxl.RunReq) string {
	a.note("start", run)
	a.log(run, "echo: "+run.ExecutorParams)
	a.note("end", run)
	return fmt.Sprintf("%s %d/%d", run.ExecutorParams, run.BroadcastIndex, run.BroadcastTotal)
}

func (a *app) sleep(ctx context.Context, run *xxl.RunReq) string {
	a.note("start", run)
	seconds, err := strconv.ParseFloat(strings.Fields(run.ExecutorParams)[0], 64)
	if err != nil {
		panic(err)
	}
	select {
	case <-ctx.Done():
		panic(ctx.Err())
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	a.note("end", run)
	return "slept"
}

func (a *app) hold(ctx context.Context, run *xxl.RunReq) string {
	a.note("start", run)
	if err := a.released(ctx, run.ExecutorParams); err != nil {
		a.leave(run)
		panic(err)
	}
	a.note("end", run)
	return "held"
}

func (a *app) fail(_ context.Context, run *xxl.RunReq) string {
	a.note("start", run)
	panic("no luck with " + run.ExecutorParams)
}

func (a *app) lines(ctx context.Context, run *xxl.RunReq) string {
	a.note("start", run)
	words := strings.Fields(run.ExecutorParams)
	count, err := strconv.Atoi(words[0])
	if err != nil {
		panic(err)
	}
	for line := 1; line <= count; line++ {
		a.log(run, fmt.Sprintf("line %d of %d", line, count))
		if line == count/2 {
			if err := a.released(ctx, words[1]); err != nil {
				panic(err)
			}
		}
	}
	a.note("end", run)
	return "logged"
}

// released waits for a file of this name, or for the end of the context.
func (a *app) released(ctx context.Context, label string) error {
	for {
		if _, err := os.Stat(filepath.Join(a.folder, label)); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leave waits until no other run of the job is under way here, and for its report to be there.
func (a *app) leave(run *xxl.RunReq) {
	a.mu.Lock()
	delete(a.open[run.JobID], run.LogID)
	a.mu.Unlock()
	time.Sleep(farewell)
	for {
		a.mu.Lock()
		others := len(a.open[run.JobID])
		a.mu.Unlock()
		if others == 0 {
			return
		}
		time.Sleep(farewell)
	}
}

func (a *app) note(word string, run *xxl.RunReq) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[run.JobID] == nil {
		a.open[run.JobID] = map[int64]bool{}
	}
	if word == "start" {
		a.open[run.JobID][run.LogID] = true
	} else {
		delete(a.open[run.JobID], run.LogID)
	}
	a.write("executed", word+" "+run.ExecutorParams)
}

func (a *app) log(run *xxl.RunReq, line string) {
	a.write(fmt.Sprintf("%d.log", run.LogID), line)
}

func (a *app) write(name string, line string) {
	file, err := os.OpenFile(filepath.Join(a.folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

// readLog answers as Java executors do: to the end of the file, never saying that it is the end.
func (a *app) readLog(ask *xxl.LogReq) *xxl.LogRes {
	content := xxl.LogResContent{FromLineNum: ask.FromLineNum}
	data, err := os.ReadFile(filepath.Join(a.folder, fmt.Sprintf("%d.log", ask.LogID)))
	if err != nil {
		content.LogContent, content.IsEnd = "no log", true
		return &xxl.LogRes{Code: xxl.SuccessCode, Content: content}
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines = lines[:len(lines)-1]
	content.ToLineNum = len(lines)
	if ask.FromLineNum <= len(lines) {
		content.LogContent = strings.Join(lines[ask.FromLineNum-1:], "")
	}
	return &xxl.LogRes{Code: xxl.SuccessCode, Content: content}
}

type plain struct{}

func (plain) Info(format string, words ...interface{})  { fmt.Printf(format+"\n", words...) }
func (plain) Error(format string, words ...interface{}) { fmt.Printf("error: "+format+"\n", words...) }
