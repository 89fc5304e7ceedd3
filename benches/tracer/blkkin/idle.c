/* A program that is linked to libblkkin and idles until the end of its standard input. It reports when
 * it has started. */
#include <blkkin.h>

#include <unistd.h>

int main(void)
{
	char nothing;

	blkin_init();
	if (write(STDOUT_FILENO, "\n", 1) != 1)
		return 1;
	while (read(STDIN_FILENO, &nothing, 1) > 0)
		;
	return 0;
}
