package caddymodule

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var update = flag.Bool("update", false, "write what the adapter answers into the golden files")

// Golden files hold cases: a Caddyfile, a line of dashes, and the JSON or the
// error it comes to. A line of equals signs ends a case.
const (
	caseEnd   = "==========\n"
	caseSplit = "----------\n"
)

func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rewritten []string
			for i, one := range strings.Split(string(content), caseEnd) {
				input, want, found := strings.Cut(one, caseSplit)
				if !found && !*update {
					t.Fatalf("case %d has no line of dashes", i+1)
				}
				got := adaptText(input)
				rewritten = append(rewritten, input+caseSplit+got)
				if !*update && got != want {
					t.Errorf("case %d\n%s\ngot:\n%s\nwant:\n%s", i+1, input, got, want)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.Join(rewritten, caseEnd)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// adaptText returns indented JSON or the error's text, with a newline at the end.
func adaptText(caddyfile string) string {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error() + "\n"
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, config, "", "\t"); err != nil {
		return err.Error() + "\n"
	}
	return indented.String() + "\n"
}

// What the adapter writes decodes strictly and comes back as it was: there is one
// form of each setting, and no default is written back.
func TestAdaptedJSONRoundTrips(t *testing.T) {
	handlers := 0
	for _, file := range []string{"global", "redis", "directive", "order"} {
		content, err := os.ReadFile("testdata/adapt/" + file + ".caddyfiletest")
		if err != nil {
			t.Fatal(err)
		}
		for one := range strings.SplitSeq(string(content), caseEnd) {
			_, output, _ := strings.Cut(one, caseSplit)
			var config map[string]any
			if err := json.Unmarshal([]byte(output), &config); err != nil {
				t.Fatal(err)
			}
			walk(config, func(object map[string]any) {
				if object["handler"] == directiveName {
					handlers++
					delete(object, "handler")
					roundTrip(t, object, new(Handler))
				}
			})
			if app, ok := config["apps"].(map[string]any)[appName].(map[string]any); ok {
				roundTrip(t, app, new(App))
			}
		}
	}
	if handlers < 8 {
		t.Errorf("only %d handlers found", handlers)
	}
}

func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, below := range v {
			walk(below, visit)
		}
	case []any:
		for _, below := range v {
			walk(below, visit)
		}
	}
}

func roundTrip(t *testing.T, object map[string]any, module any) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(module); err != nil {
		t.Errorf("%s: %v", raw, err)
		return
	}
	again, err := json.Marshal(module)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(again, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, object) {
		t.Errorf("got  %s\nwant %s", again, raw)
	}
}

// The shipped Caddyfile is the zero configuration of the documents, and nothing
// more.
func TestShippedCaddyfile(t *testing.T) {
	const documented = `{
	admin localhost:2642
}
{$HERMES_EDGE_SITE:http://localhost:8680, http://127.0.0.1:8680} {
	bind {$HERMES_EDGE_BIND:127.0.0.1}
	hermes_edge
}
`
	shipped, err := os.ReadFile("../Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := adaptText(string(shipped)), adaptText(documented); got != want || !strings.HasPrefix(got, "{") {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// FuzzCaddyfile: whatever is written into the blocks, the answer is a
// configuration or an error, and a configuration is JSON that decodes strictly.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for one := range strings.SplitSeq(string(content), caseEnd) {
			input, _, _ := strings.Cut(one, caseSplit)
			f.Add(input)
		}
	}
	f.Fuzz(func(t *testing.T, input string) {
		if strings.Contains(input, "import") {
			t.Skip("import reads files")
		}
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			return
		}
		var parsed struct {
			Apps struct {
				Hermes json.RawMessage `json:"hermes"`
			} `json:"apps"`
		}
		if err := json.Unmarshal(config, &parsed); err != nil {
			t.Fatal(err)
		}
		if len(parsed.Apps.Hermes) == 0 {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(parsed.Apps.Hermes))
		decoder.DisallowUnknownFields()
		app := new(App)
		if err := decoder.Decode(app); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(app)
		if err != nil || !bytes.Equal(compact(t, again), compact(t, parsed.Apps.Hermes)) {
			t.Fatalf("round trip: %v\n%s\n%s", err, parsed.Apps.Hermes, again)
		}
	})
}

func compact(t *testing.T, raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
