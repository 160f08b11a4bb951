package chatrun

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestToolPreview(t *testing.T) { // CR-34
	long := strings.Repeat("x", 300)
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"not JSON", "a  b\n c", "a b c"},
		{"not JSON, long", long, long[:160]},
		{"a number", "42", "42"},
		{"a long text", `"` + long + `"`, (`"` + long)[:120]},
		{"key order", `{"path":"/p","command":"ls   -la"}`, "ls -la"},
		{"blank key is skipped", `{"command":"  ","path":"/p"}`, "/p"},
		{"first own entry", `{"n":1,"zeta":"z","alpha":"a"}`, "z"},
		{"no text", `{ "n": 1 }`, `{"n":1}`},
		{"empty object", `{}`, `{}`},
		{"array", `[1, "x"]`, `[1,"x"]`},
		{"long value", `{"code":"` + long + `"}`, long[:160]},
		{"surrogate pairs are not split", `{"cmd":"` + strings.Repeat("😀", 100) + `"}`, strings.Repeat("😀", 80)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ToolPreview(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTitle(t *testing.T) { // CR-21, R14
	family := "👨‍👩‍👧‍👦"
	for _, tc := range []struct{ name, in, want string }{
		{"one line", "  a\r\nb\tc ", "a b c"},
		{"cut", strings.Repeat("ab", 50), strings.Repeat("ab", 32)},
		{"no grapheme is split", strings.Repeat(family, 70), strings.Repeat(family, 64)},
		{"combining marks stay", strings.Repeat("e\u0301", 70), strings.Repeat("e\u0301", 64)},
		{"empty", " \n ", ""},
	} {
		if got := Title(tc.in); got != tc.want {
			t.Errorf("%s: got %q", tc.name, got)
		}
	}
}

func TestValidSessionID(t *testing.T) {
	for id, want := range map[string]bool{
		"m9x1k2abc": true, "20261130_221530_a1b2c3": true, "a:b.c-d_e": true, strings.Repeat("x", 128): true,
		"": false, "a/b": false, "a b": false, "..\\x": false, "ä": false, "a\x00": false, strings.Repeat("x", 129): false, "{s}": false,
	} {
		if ValidSessionID(id) != want {
			t.Errorf("%q: want %v", id, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f", "你好 😀", "\xff\xfe broken \xc3", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
		if !utf8.ValidString(back) {
			t.Fatalf("%q: invalid UTF-8 out", s)
		}
	})
}

func BenchmarkMessageDelta(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		MessageDelta("20261130_221530_a1b2c3", "resp_0f93e6b1c24d4d7c8a6512be9d04", "some text of a delta, as models write it")
	}
}
