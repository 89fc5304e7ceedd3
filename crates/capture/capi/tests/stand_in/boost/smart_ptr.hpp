// As much of boost as <ztracer.hpp> needs with BLKIN_BOOST, where boost is not installed.
#pragma once
#include <memory>
namespace boost {
template <typename T> class shared_ptr : public std::shared_ptr<T> {
public:
	using std::shared_ptr<T>::shared_ptr;
};
} // namespace boost
