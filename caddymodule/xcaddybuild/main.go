// Command xcaddybuild builds Caddy with this module from xcaddy.json, a serialised
// xcaddy.Builder, which the xcaddy command itself cannot read:
//
//	go run ./caddymodule/xcaddybuild [-config xcaddy.json] <output>
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/caddyserver/xcaddy"
)

func main() {
	config := flag.String("config", "xcaddy.json", "serialised xcaddy.Builder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, *config, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "xcaddybuild:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, config, output string) error {
	builder, err := load(config)
	if err != nil {
		return err
	}
	return builder.Build(ctx, output)
}

// load decodes a Builder strictly. Local replacements are made absolute, seen from
// the file's folder: xcaddy builds in a folder of its own.
func load(config string) (xcaddy.Builder, error) {
	var builder xcaddy.Builder
	file, err := os.Open(config)
	if err != nil {
		return builder, err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&builder); err != nil {
		return builder, fmt.Errorf("%s: %w", config, err)
	}
	folder, err := filepath.Abs(filepath.Dir(config))
	if err != nil {
		return builder, err
	}
	for i, r := range builder.Replacements {
		if strings.HasPrefix(string(r.New), ".") {
			builder.Replacements[i].New = xcaddy.ReplacementPath(filepath.Join(folder, string(r.New)))
		}
	}
	return builder, nil
}
