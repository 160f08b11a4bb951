package hermesagent

// The releases that the end-to-end tests run: the newest that PyPI has (later ones are only tags of the
// repository) and the oldest that the specification names and PyPI still has. Both were installed and run
// with Python 3.11.
const (
	Newest = "0.19.0"
	Oldest = "0.13.0"
)

// Versions lists the releases under test, newest first.
func Versions() []string {
	return []string{Newest, Oldest}
}
