// Inserts and works jobs that do nothing, as benchmarks/peers_pg.py tells it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	batch = 5000
	poll  = 2 * time.Millisecond
)

type nothing struct {
	Number int `json:"number"`
}

func (nothing) Kind() string { return "nothing" }

type worker struct {
	river.WorkerDefaults[nothing]
	done *atomic.Int64
}

func (w *worker) Work(context.Context, *river.Job[nothing]) error {
	w.done.Add(1)
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	jobs, warm := must(strconv.Atoi(os.Args[1])), must(strconv.Atoi(os.Args[2]))
	config := must(pgxpool.ParseConfig(os.Getenv("PEER_URL")))
	config.MaxConns = 16
	pool := must(pgxpool.NewWithConfig(ctx, config))
	driver := riverpgxv5.New(pool)
	must(must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))

	var done atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{done: &done})
	client := must(river.NewClient(driver, &river.Config{
		// what River's own benchmark takes: its defaults are for fewer jobs
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		Workers:           workers,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}))
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}

	insert := func(count int) {
		for first := 0; first < count; first += batch {
			params := make([]river.InsertManyParams, min(batch, count-first))
			for at := range params {
				params[at] = river.InsertManyParams{Args: nothing{first + at}}
			}
			must(client.InsertManyFast(ctx, params))
		}
	}
	finish := func(count int) {
		for left := true; left; time.Sleep(poll) {
			if done.Load() >= int64(count) {
				query := "SELECT EXISTS (SELECT FROM river_job WHERE state <> 'completed')"
				if err := pool.QueryRow(ctx, query).Scan(&left); err != nil {
					log.Fatal(err)
				}
			}
		}
	}
	orders := bufio.NewReader(os.Stdin)
	insert(warm)
	finish(warm)
	fmt.Println("ready")
	must(orders.ReadString('\n'))
	began := time.Now()
	insert(jobs)
	inserted := time.Since(began)
	finish(warm + jobs)
	all := time.Since(began)
	fmt.Printf("{\"insert_s\": %f, \"all_s\": %f, \"done\": %d}\n", inserted.Seconds(), all.Seconds(), done.Load()-int64(warm))
	_, _ = orders.ReadString('\n') // the end of our orders
}
