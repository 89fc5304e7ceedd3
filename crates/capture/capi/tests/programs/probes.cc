// Events in inline functions, templates and lambda expressions, and texts without a NUL. Records
// them for each line of input, and prints how often an argument was evaluated so far.
#include <blkkin.h>
#include <cstdio>
#include <cstring>

static int evaluated;

inline void record_text(const char *long_text)
{
	const char path[] = {'/', 'd', 'e', 'v'};

	BLKKIN_EVENT(osd, text, BLKKIN_INFO, (text, path, path, 3),
		     (text, long_text, long_text, std::strlen(long_text)), (int, count, (++evaluated, 255)));
}

template <class T> void record_typed(T value)
{
	BLKKIN_EVENT(osd, typed, BLKKIN_INFO, (int64, value, static_cast<int64_t>(value)));
}

int main()
{
	static char long_text[1000];
	char line[16];

	std::memset(long_text, 'x', sizeof(long_text) - 1);
	std::printf("%d\n", evaluated);
	std::fflush(stdout);
	while (std::fgets(line, sizeof(line), stdin)) {
		record_text(long_text);
		record_typed(1);
		record_typed(-2L);
		[](short value) {
			BLKKIN_EVENT(osd, typed, BLKKIN_INFO, (short, value, value));
		}(3);
		std::printf("%d\n", evaluated);
		std::fflush(stdout);
	}
	return 0;
}
