// Like sampled.c, with the classes of ztracer.hpp and of blkkin.hpp.
#include <blkkin.hpp>
#include <ztracer.hpp>

#include <cstdio>

static const blkkin::Endpoint here{"osd.3", "10.0.0.7", 6802};

static void old_style()
{
	const ZTracer::Endpoint at("10.0.0.7", 6802, "osd.3");
	const ZTracer::Trace root("request", &at);
	root.event("begun");
	const ZTracer::Trace child("child", &at, &root);
	child.keyval("number", static_cast<int64_t>(7));
	const ZTracer::Trace elsewhere("elsewhere", &at, child.get_info(), true);
	elsewhere.event("received");
}

static int new_style()
{
	const auto root = blkkin::Trace::root("request", here);
	root.event("begun");
	const auto child = root.child("child");
	child.keyval("number", 7);
	const auto elsewhere = blkkin::Trace::receive("elsewhere", here, child.traceparent());
	elsewhere.event("received");
	return root.sampled();
}

int main()
{
	char line[16];
	ZTracer::ztrace_init();
	while (std::fgets(line, sizeof line, stdin)) {
		int sampled = 0;
		for (int i = 0; i < 100; i++) {
			old_style();
			sampled += new_style();
		}
		std::printf("%d\n", sampled);
		std::fflush(stdout);
	}
}
